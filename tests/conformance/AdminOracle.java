package org.apache.kafka.controller;

import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.function.Supplier;

import kafka.server.ConfigHelper;
import kafka.server.ControllerMutationQuota;
import kafka.server.ControllerMutationQuotaManager;
import kafka.server.KafkaConfig;
import kafka.server.metadata.ConfigRepository;
import kafka.server.metadata.KRaftMetadataCache;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ThrottlingQuotaExceededException;
import org.apache.kafka.common.message.AlterClientQuotasRequestData;
import org.apache.kafka.common.message.AlterUserScramCredentialsRequestData;
import org.apache.kafka.common.message.DescribeConfigsRequestData;
import org.apache.kafka.common.message.DescribeConfigsResponseData;
import org.apache.kafka.common.metadata.ClientQuotaRecord;
import org.apache.kafka.common.metadata.RemoveUserScramCredentialRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.metadata.UserScramCredentialRecord;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.AlterClientQuotasRequest;
import org.apache.kafka.common.requests.AlterClientQuotasResponse;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Sanitizer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Says what the managers of Kafka's own controller make of requests, one line in, one line out.
 *
 * <ul>
 *   <li>{@code quotas HEX}, {@code scram HEX LEVEL}: the body of a request in the newest version;
 *       out comes the response and each record, in hex. What is not only tried is kept.
 *   <li>{@code limit USER CLIENT RATE}: a quota on mutations; "-" for none of the two, "+" for its
 *       default, the rate "-" to remove it.
 *   <li>{@code take USER CLIENT STRICT PARTITIONS MS}: whether a caller is refused, and the time it
 *       is told to wait.
 *   <li>{@code property NAME=VALUE}, {@code config TYPE RESOURCE NAME=VALUE}: of the controller 3000,
 *       and of a resource, "-" for the nameless broker.
 *   <li>{@code describe SYNONYMS TYPE RESOURCE}: DescribeConfigs of one resource, topic or not.
 *   <li>{@code value KIND TEXT...}: how a text is read; {@link ValueOracle}.
 *   <li>{@code new}: forget everything.
 * </ul>
 */
public final class AdminOracle {
    private static final class Clock implements Time {
        long now;

        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return now * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            now += ms;
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }

    private static final ValueOracle VALUES = values();
    private final Clock clock = new Clock();
    private final Metrics metrics = new Metrics();
    private final ClientQuotaControlManager quotas = new ClientQuotaControlManager.Builder().build();
    private final ScramControlManager scram = new ScramControlManager.Builder().build();
    private final Properties properties = new Properties();
    private final Map<ConfigResource, Properties> configs = new HashMap<>();
    private ControllerMutationQuotaManager mutations;

    public static void main(String[] arguments) throws Exception {
        AdminOracle oracle = new AdminOracle();
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ", -1);
            if (words[0].equals("new")) {
                oracle.close();
                oracle = new AdminOracle();
                System.out.println("new");
            } else {
                System.out.println(oracle.answer(words));
            }
        }
        System.out.flush();
        System.exit(0);
    }

    private static ValueOracle values() {
        try {
            return new ValueOracle();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private void close() {
        if (mutations != null) {
            mutations.shutdown();
        }
        metrics.close();
    }

    private String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "quotas":
                return quotas(body(words[1]));
            case "scram":
                return scram(body(words[1]), Short.parseShort(words[2]));
            case "property":
                String[] property = words[1].split("=", 2);
                properties.setProperty(property[0], property[1]);
                return "ok";
            case "config":
                String[] config = words[3].split("=", 2);
                resource(words[1], words[2]).setProperty(config[0], config[1]);
                return "ok";
            case "describe":
                return describe(Boolean.parseBoolean(words[1]), words[2], words[3]);
            case "limit":
                return limit(words[1], words[2], words[3]);
            case "value":
                return VALUES.answer(Arrays.copyOfRange(words, 1, words.length));
            case "take":
                clock.now = Long.parseLong(words[5]);
                return take(words[1], words[2], Boolean.parseBoolean(words[3]), Integer.parseInt(words[4]));
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private String quotas(ByteBufferAccessor body) {
        AlterClientQuotasRequestData data = new AlterClientQuotasRequestData(body, (short) 1);
        AlterClientQuotasRequest request = new AlterClientQuotasRequest(data, (short) 1);
        var result = quotas.alterClientQuotas(request.entries());
        List<ApiMessageAndVersion> kept = request.validateOnly() ? List.of() : result.records();
        kept.forEach(one -> quotas.replay((ClientQuotaRecord) one.message()));
        ApiMessage response = AlterClientQuotasResponse.fromQuotaEntities(result.response(), 0).data();
        return written(response, (short) 1, kept);
    }

    private String scram(ByteBufferAccessor body, short level) {
        var request = new AlterUserScramCredentialsRequestData(body, (short) 0);
        var result = scram.alterCredentials(request, MetadataVersion.fromFeatureLevel(level));
        for (ApiMessageAndVersion one : result.records()) {
            if (one.message() instanceof UserScramCredentialRecord record) {
                scram.replay(record);
            } else {
                scram.replay((RemoveUserScramCredentialRecord) one.message());
            }
        }
        return written(result.response(), (short) 0, result.records());
    }

    private Properties resource(String type, String name) {
        ConfigResource.Type kind = ConfigResource.Type.forId(Byte.parseByte(type));
        ConfigResource key = new ConfigResource(kind, name.equals("-") ? "" : name);
        return configs.computeIfAbsent(key, unused -> new Properties());
    }

    private String describe(boolean synonyms, String type, String name) {
        KafkaConfig config = KafkaConfig.fromProps(properties, false);
        config.dynamicConfig().initialize(Option.empty(), Option.empty());
        config.dynamicConfig().updateDefaultConfig(resource("4", "-"), true);
        config.dynamicConfig().updateBrokerConfig(3000, resource("4", "3000"), true);
        ConfigRepository repository = key -> configs.getOrDefault(key, new Properties());
        KRaftMetadataCache cache = new KRaftMetadataCache(3000, () -> KRaftVersion.KRAFT_VERSION_0);
        MetadataDelta delta = new MetadataDelta(MetadataImage.EMPTY);
        delta.replay(new TopicRecord().setName("t").setTopicId(new Uuid(5, 6)));
        cache.setImage(delta.apply(MetadataProvenance.EMPTY));
        var asked = new DescribeConfigsRequestData.DescribeConfigsResource()
            .setResourceType(Byte.parseByte(type)).setResourceName(name.equals("-") ? "" : name);
        scala.collection.immutable.List<DescribeConfigsRequestData.DescribeConfigsResource> resources =
            scala.collection.immutable.List$.MODULE$.from(CollectionConverters.asScala(List.of(asked)));
        scala.collection.Seq<DescribeConfigsResponseData.DescribeConfigsResult> told =
            new ConfigHelper(cache, config, repository).describeConfigs(resources, synonyms, false);
        DescribeConfigsResponseData response = new DescribeConfigsResponseData();
        response.setResults(CollectionConverters.asJava(told));
        return written(response, (short) 4, List.of());
    }

    private String limit(String user, String client, String rate) {
        // As DynamicClientQuotaPublisher does: names are escaped, and the default has one of its own.
        mutations().updateQuota(
            escaped(user),
            Option.apply(client.equals("-") ? null : client.equals("+") ? "<default>" : client),
            escaped(client),
            Option.apply(rate.equals("-") ? null : new Quota(Double.parseDouble(rate), true)));
        return "ok";
    }

    private static Option<String> escaped(String name) {
        if (name.equals("-")) {
            return Option.empty();
        }
        return Option.apply(name.equals("+") ? "<default>" : Sanitizer.sanitize(name));
    }

    private String take(String user, String client, boolean strict, int partitions) {
        Session session = new Session(new KafkaPrincipal("User", user), InetAddress.getLoopbackAddress());
        ControllerMutationQuota quota = strict
            ? mutations().newStrictQuotaFor(session, client)
            : mutations().newPermissiveQuotaFor(session, client);
        boolean refused = false;
        try {
            quota.record(partitions);
        } catch (ThrottlingQuotaExceededException error) {
            refused = true;
        }
        return refused + " " + quota.throttleTime();
    }

    private ControllerMutationQuotaManager mutations() {
        if (mutations == null) {
            mutations = new ControllerMutationQuotaManager(
                new ClientQuotaManagerConfig(11, 1), metrics, clock, "oracle", Option.empty());
        }
        return mutations;
    }

    private static ByteBufferAccessor body(String hex) {
        return new ByteBufferAccessor(ByteBuffer.wrap(HexFormat.of().parseHex(hex)));
    }

    private static String written(ApiMessage response, short version, List<ApiMessageAndVersion> records) {
        StringBuilder line = new StringBuilder(hex(MessageUtil.toByteBuffer(response, version)));
        MetadataRecordSerde serde = new MetadataRecordSerde();
        for (ApiMessageAndVersion record : records) {
            var cache = new org.apache.kafka.common.protocol.ObjectSerializationCache();
            ByteBuffer buffer = ByteBuffer.allocate(serde.recordSize(record, cache));
            serde.write(record, cache, new ByteBufferAccessor(buffer));
            buffer.flip();
            line.append(' ').append(hex(buffer));
        }
        return line.toString();
    }

    private static String hex(ByteBuffer buffer) {
        return HexFormat.of().formatHex(buffer.array(), buffer.position(), buffer.limit());
    }
}
