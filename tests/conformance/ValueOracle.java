package org.apache.kafka.controller;

import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.URIParameter;
import java.util.AbstractMap.SimpleEntry;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.regex.Pattern;

import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;


import kafka.server.BrokerConfigHandler;
import kafka.server.ControllerConfigurationValidator;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import kafka.server.QuotaFactory;
import kafka.server.QuotaFactory$;
import kafka.server.TopicConfigHandler;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.security.JaasContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;
import scala.Option;

/**
 * How Kafka's classes, and Java's, read a text: {@code KIND TEXT...}, each text in base64.
 *
 * Out comes what was read, or "!" and why not. Where the controller judges a value and a broker loads it, there
 * are two words: whether the controller takes it, and whether the broker does, "ok" or "!".
 */
final class ValueOracle {
    private static final String THROTTLED = ".replication.throttled.replicas";
    private final ControllerConfigurationValidator validator;
    private final TopicConfigHandler handler;
    private final KafkaConfig broker;
    private final QuotaFactory.QuotaManagers quotas;
    private final Path file;

    ValueOracle() throws Exception {
        Properties properties = new Properties();
        properties.put("process.roles", "controller");
        properties.put("node.id", "3000");
        properties.put("controller.quorum.voters", "3000@localhost:9093");
        properties.put("listeners", "CONTROLLER://localhost:9093");
        properties.put("controller.listener.names", "CONTROLLER");
        KafkaConfig config = KafkaConfig.fromProps(properties, false);
        validator = new ControllerConfigurationValidator(config);
        handler = new TopicConfigHandler(null, config, null, Option.empty());
        Properties ofBroker = new Properties();
        ofBroker.put("broker.id", "1");
        ofBroker.put("zookeeper.connect", "localhost:1");
        // So that one value alone is judged, not its relation to another.
        ofBroker.put("log.cleaner.dedupe.buffer.size", "" + Long.MAX_VALUE);
        ofBroker.put("max.connections.per.ip.overrides", "1.1.1.1:1");
        broker = KafkaConfig.fromProps(ofBroker, false);
        broker.dynamicConfig().initialize(Option.empty(), Option.empty());
        quotas = QuotaFactory$.MODULE$.instantiate(broker, new Metrics(), Time.SYSTEM, "");
        file = Files.createTempFile("value-oracle", ".jaas");
        file.toFile().deleteOnExit();
    }

    String answer(String[] words) {
        String[] texts = new String[words.length - 1];
        for (int i = 0; i < texts.length; i++) {
            texts[i] = new String(Base64.getDecoder().decode(words[i + 1]), StandardCharsets.UTF_8);
        }
        switch (words[0]) {
            case "topic":
                return tried(() -> validate(ConfigResource.Type.TOPIC, "t", texts)) + " "
                    + tried(() -> load(texts));
            case "metrics":
                return tried(() -> validate(ConfigResource.Type.CLIENT_METRICS, "s", texts)) + " "
                    + tried(() -> loadMetrics(texts));
            case "dynamic":
                return tried(() -> loadBroker(texts));
            case "broker":
                return tried(() -> validate(ConfigResource.Type.BROKER, texts[0]));
            case "pattern":
                return tried(() -> Pattern.compile(texts[0]));
            default:
                try {
                    return read(words[0], texts);
                } catch (Throwable refused) {
                    return "! " + refused.getClass().getSimpleName();
                }
        }
    }

    private String read(String kind, String[] texts) throws Exception {
        switch (kind) {
            case "trim":
                return encoded(texts[0].trim());
            case "int":
                return "" + Integer.parseInt(texts[0]);
            case "long":
                return "" + Long.parseLong(texts[0]);
            case "double":
                return Long.toHexString(Double.doubleToLongBits(Double.parseDouble(texts[0])));
            case "boolean":
                return "" + ConfigDef.parseType("x", texts[0], ConfigDef.Type.BOOLEAN);
            case "list":
                return joined((List<?>) ConfigDef.parseType("x", texts[0], ConfigDef.Type.LIST));
            case "edit":
                return edited(texts[0], texts[1], OpType.valueOf(texts[2]));
            case "properties":
                Properties properties = new Properties();
                properties.load(new StringReader(texts[0]));
                return joined(properties);
            case "login":
                Map<String, Object> configs = new HashMap<>();
                // Trimmed as a broker's config is: a value of type PASSWORD.
                configs.put("sasl.jaas.config", ConfigDef.parseType("x", texts[0], ConfigDef.Type.PASSWORD));
                return joined(JaasContext.loadClientContext(configs).configurationEntries());
            case "file":
                Files.writeString(file, texts[0]);
                AppConfigurationEntry[] found = Configuration
                    .getInstance("JavaLoginConfig", new URIParameter(file.toUri()))
                    .getAppConfigurationEntry("Client");
                return found == null ? "none" : joined(List.of(found));
            default:
                throw new IllegalStateException(kind);
        }
    }

    private interface Step {
        void run() throws Exception;
    }

    private static String tried(Step step) {
        try {
            step.run();
            return "ok";
        } catch (Throwable refused) {
            return "!";
        }
    }

    private static Map<String, String> pairs(String[] texts) {
        Map<String, String> found = new HashMap<>();
        for (int i = 0; i + 1 < texts.length; i += 2) {
            found.put(texts[i], texts[i + 1]);
        }
        return found;
    }

    private void validate(ConfigResource.Type type, String name, String... texts) {
        Map<String, String> values = type == ConfigResource.Type.BROKER ? Map.of() : pairs(texts);
        validator.validate(new ConfigResource(type, name), values, new HashMap<>());
    }

    /** As LogManager does at the start of a broker, and the handler of a topic's configs. */
    private void load(String[] texts) {
        Properties properties = new Properties();
        properties.putAll(pairs(texts));
        LogConfig.fromProps(new HashMap<>(), properties);
        for (String side : new String[] {"leader", "follower"}) {
            if (properties.containsKey(side + THROTTLED)) {
                for (int broker = 0; broker < 10; broker++) {
                    handler.parseThrottledPartitions(properties, broker, side + THROTTLED);
                }
            }
        }
    }

    /** As a broker does with its own configs, and in ZooKeeper mode already at its start. */
    private void loadBroker(String[] texts) {
        Properties properties = new Properties();
        properties.putAll(pairs(texts));
        broker.dynamicConfig().updateBrokerConfig(1, new Properties(), false);
        broker.dynamicConfig().validate(properties, true);
        new BrokerConfigHandler(broker, quotas).processConfigChanges("1", properties);
    }

    /** As ClientMetricsManager does when a subscription changes. */
    private static void loadMetrics(String[] texts) {
        Properties properties = new Properties();
        properties.putAll(pairs(texts));
        ClientMetricsConfigs configs = new ClientMetricsConfigs(properties);
        configs.getList("metrics");
        configs.getInt("interval.ms");
        ClientMetricsConfigs.parseMatchingPatterns(configs.getList("match"));
    }

    private static String edited(String before, String value, OpType operation) {
        ConfigurationControlManager manager = new ConfigurationControlManager.Builder()
            .setKafkaConfigSchema(KafkaRaftServer.configSchema()).build();
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, "t");
        if (!before.equals("\0")) {
            manager.replay(new ConfigRecord().setResourceType((byte) 2).setResourceName("t")
                .setName("cleanup.policy").setValue(before));
        }
        var change = new SimpleEntry<>(operation, value);
        var result = manager.incrementalAlterConfig(topic, Map.of("cleanup.policy", change), true);
        for (var record : result.records()) {
            return encoded(((ConfigRecord) record.message()).value());
        }
        return "same";
    }

    private static String encoded(Object text) {
        return Base64.getEncoder().encodeToString(String.valueOf(text).getBytes(StandardCharsets.UTF_8));
    }

    private static String joined(List<?> values) {
        StringBuilder line = new StringBuilder().append(values.size());
        for (Object value : values) {
            if (value instanceof AppConfigurationEntry entry) {
                line.append(' ').append(encoded(entry.getLoginModuleName()));
                line.append(' ').append(joined(entry.getOptions()));
            } else {
                line.append(' ').append(encoded(value));
            }
        }
        return line.toString();
    }

    private static String joined(Map<?, ?> values) {
        TreeMap<String, String> sorted = new TreeMap<>();
        values.forEach((key, value) -> sorted.put(encoded(key), encoded(value)));
        return sorted.toString().replace(", ", ",");
    }
}
