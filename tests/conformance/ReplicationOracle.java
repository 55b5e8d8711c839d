package org.apache.kafka.controller;

import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import java.util.OptionalLong;
import java.util.Scanner;

import kafka.server.KafkaRaftServer;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.AlterPartitionRequestData;
import org.apache.kafka.common.message.AssignReplicasToDirsRequestData;
import org.apache.kafka.common.message.ElectLeadersRequestData;
import org.apache.kafka.common.message.ListPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Says what Kafka's ReplicationControlManager makes of requests, one line in, one line out.
 *
 * <ul>
 *   <li>{@code new ZK HEX...}: begin anew, with brokers in ZooKeeper mode or not, and replay records.
 *   <li>{@code KEY VERSION HEX}: the body of a request; out comes the response and each record, in
 *       hex, or {@code !} and the code of the error that is thrown. Nothing is kept.
 * </ul>
 */
public final class ReplicationOracle {
    private final SnapshotRegistry registry = new SnapshotRegistry(new LogContext());
    private final FeatureControlManager features;
    private final ClusterControlManager brokers;
    private final ConfigurationControlManager configs;
    private final ReplicationControlManager replication;
    private long offset = 0;

    private ReplicationOracle(boolean migrating) {
        features = new FeatureControlManager.Builder().
            setSnapshotRegistry(registry).
            setQuorumFeatures(new QuorumFeatures(
                3000, QuorumFeatures.defaultFeatureMap(true), List.of(3000))).
            setMetadataVersion(MetadataVersion.MINIMUM_KRAFT_VERSION).
            build();
        brokers = new ClusterControlManager.Builder().
            setClusterId("oracle").
            setSnapshotRegistry(registry).
            setFeatureControlManager(features).
            setZkMigrationEnabled(migrating).
            setBrokerUncleanShutdownHandler((id, records) -> { }).
            build();
        configs = new ConfigurationControlManager.Builder().
            setSnapshotRegistry(registry).
            setKafkaConfigSchema(KafkaRaftServer.configSchema()).
            build();
        replication = new ReplicationControlManager.Builder().
            setSnapshotRegistry(registry).
            setLogContext(new LogContext()).
            setFeatureControl(features).
            setClusterControl(brokers).
            setConfigurationControl(configs).
            build();
        brokers.activate();
    }

    public static void main(String[] arguments) {
        ReplicationOracle oracle = null;
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ", -1);
            if (words[0].equals("new")) {
                oracle = new ReplicationOracle(Boolean.parseBoolean(words[1]));
                for (int index = 2; index < words.length; index++) {
                    oracle.replay(body(words[index]));
                }
                System.out.println("new");
            } else {
                System.out.println(
                    oracle.answer(Short.parseShort(words[0]), Short.parseShort(words[1]), body(words[2])));
            }
        }
        System.out.flush();
        System.exit(0);
    }

    private void replay(ByteBufferAccessor bytes) {
        ApiMessage record = new MetadataRecordSerde().read(bytes, bytes.remaining()).message();
        if (record instanceof FeatureLevelRecord one) {
            features.replay(one);
        } else if (record instanceof RegisterBrokerRecord one) {
            brokers.replay(one, offset++);
        } else if (record instanceof ConfigRecord one) {
            configs.replay(one);
        } else if (record instanceof TopicRecord one) {
            replication.replay(one);
        } else {
            replication.replay((PartitionRecord) record);
        }
    }

    private String answer(short key, short version, ByteBufferAccessor body) {
        var context = new ControllerRequestContext(
            new RequestHeaderData().setRequestApiVersion(version), KafkaPrincipal.ANONYMOUS, OptionalLong.empty());
        ControllerResult<? extends ApiMessage> result;
        try {
            result = switch (key) {
                case 43 -> replication.electLeaders(new ElectLeadersRequestData(body, version));
                case 45 -> replication.alterPartitionReassignments(
                    new AlterPartitionReassignmentsRequestData(body, version));
                case 46 -> ControllerResult.of(List.of(), replication.listPartitionReassignments(
                    new ListPartitionReassignmentsRequestData(body, version).topics(), Long.MAX_VALUE));
                case 56 -> replication.alterPartition(context, new AlterPartitionRequestData(body, version));
                case 73 -> replication.handleAssignReplicasToDirs(
                    new AssignReplicasToDirsRequestData(body, version));
                default -> throw new IllegalArgumentException("key " + key);
            };
        } catch (RuntimeException error) {
            return "! " + ApiError.fromThrowable(error).error().code();
        }
        StringBuilder line = new StringBuilder(hex(MessageUtil.toByteBuffer(result.response(), version)));
        MetadataRecordSerde serde = new MetadataRecordSerde();
        for (ApiMessageAndVersion record : result.records()) {
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer buffer = ByteBuffer.allocate(serde.recordSize(record, cache));
            serde.write(record, cache, new ByteBufferAccessor(buffer));
            buffer.flip();
            line.append(' ').append(hex(buffer));
        }
        return line.toString();
    }

    private static ByteBufferAccessor body(String hex) {
        return new ByteBufferAccessor(ByteBuffer.wrap(HexFormat.of().parseHex(hex)));
    }

    private static String hex(ByteBuffer buffer) {
        return HexFormat.of().formatHex(buffer.array(), buffer.position(), buffer.limit());
    }
}
