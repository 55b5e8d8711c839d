package org.apache.kafka.controller;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Map.Entry;
import java.util.TreeMap;

import org.apache.kafka.clients.admin.FeatureUpdate.UpgradeType;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.ZkMigrationStateRecord;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.metadata.VersionRange;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * What Kafka's own classes say about changes of finalised features. "downgrades": every pair of
 * levels between which metadata changed. "updates": one case a line on standard input, its answer
 * and what would be written on standard output. In Kafka's package, as the class is not public.
 */
public final class FeatureOracle {
    private static final SnapshotRegistry REGISTRY = new SnapshotRegistry(new LogContext());

    public static void main(String[] arguments) throws IOException {
        if (arguments[0].equals("downgrades")) {
            downgrades();
        } else {
            BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                System.out.println(answer(line.split("\t", -1)));
            }
        }
    }

    private static void downgrades() {
        for (MetadataVersion from : MetadataVersion.VERSIONS) {
            for (MetadataVersion to : MetadataVersion.VERSIONS) {
                if (to.isKRaftSupported() && from.isProduction() && to.isLessThan(from)
                        && MetadataVersion.checkIfMetadataChanged(from, to)) {
                    System.out.println(from.featureLevel() + " " + to.featureLevel());
                }
            }
        }
    }

    /** level, migration state, voters, brokers, controllers, feature, new level, upgrade type. */
    private static String answer(String[] given) {
        List<Integer> voters = new ArrayList<>();
        for (String voter : given[2].split(",")) {
            voters.add(Integer.valueOf(voter));
        }
        Map<Integer, Map<String, VersionRange>> brokers = nodes(given[3]);
        Map<Integer, Map<String, VersionRange>> controllers = nodes(given[4]);
        FeatureControlManager manager = new FeatureControlManager.Builder().
            setSnapshotRegistry(REGISTRY).
            setQuorumFeatures(new QuorumFeatures(
                voters.get(0), QuorumFeatures.defaultFeatureMap(false), voters)).
            setMetadataVersion(MetadataVersion.MINIMUM_KRAFT_VERSION).
            setClusterFeatureSupportDescriber(new ClusterFeatureSupportDescriber() {
                @Override
                public Iterator<Entry<Integer, Map<String, VersionRange>>> brokerSupported() {
                    return brokers.entrySet().iterator();
                }

                @Override
                public Iterator<Entry<Integer, Map<String, VersionRange>>> controllerSupported() {
                    return controllers.entrySet().iterator();
                }
            }).
            build();
        manager.replay(new FeatureLevelRecord().setName(MetadataVersion.FEATURE_NAME).
            setFeatureLevel(Short.parseShort(given[0])));
        manager.replay(new ZkMigrationStateRecord().
            setZkMigrationState(Byte.parseByte(given[1])));
        Map<String, Short> updates = new HashMap<>();
        updates.put(given[5], Short.valueOf(given[6]));
        Map<String, UpgradeType> types =
            Collections.singletonMap(given[5], UpgradeType.fromCode(Integer.parseInt(given[7])));
        ControllerResult<Map<String, ApiError>> result =
            manager.updateFeatures(updates, types, false);
        ApiError error = result.response().get(given[5]);
        StringBuilder text = new StringBuilder();
        text.append(error.error().code()).append('\t').append(error.message());
        for (ApiMessageAndVersion record : result.records()) {
            FeatureLevelRecord level = (FeatureLevelRecord) record.message();
            text.append('\t').append(level.name()).append('=').append(level.featureLevel());
        }
        return text.toString();
    }

    private static Map<Integer, Map<String, VersionRange>> nodes(String text) {
        Map<Integer, Map<String, VersionRange>> found = new TreeMap<>();
        for (String node : text.isEmpty() ? new String[0] : text.split(";")) {
            String[] parts = node.split(":");
            Map<String, VersionRange> ranges = new HashMap<>();
            for (int index = 1; index + 2 < parts.length; index += 3) {
                ranges.put(parts[index], VersionRange.of(
                    Short.parseShort(parts[index + 1]), Short.parseShort(parts[index + 2])));
            }
            found.put(Integer.valueOf(parts[0]), ranges);
        }
        return found;
    }
}
