import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.zookeeper.client.ConnectStringParser;

/**
 * Asks Kafka's own classes whether a server starts with a server.properties: KafkaConfig, the protocol on the
 * controllers' listener (KafkaRaftManager and RaftControllerNodeProvider find it so), and ZooKeeper's connect string.
 *
 * Standard input: one file a line, in base64. Standard output: one line for each, "ok" or "! why".
 * With the argument "definitions": every key with its type and its validator, a line each, parted by tabs.
 */
public final class ConfigOracle {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        if (arguments.length > 0 && arguments[0].equals("definitions")) {
            // Releases before 3.5 do not show it: there only files are asked about.
            ConfigDef definitions = (ConfigDef) KafkaConfig.class.getMethod("configDef").invoke(null);
            Map<String, ConfigDef.ConfigKey> keys = new TreeMap<>(definitions.configKeys());
            for (ConfigDef.ConfigKey key : keys.values()) {
                out.println(key.name + "\t" + key.type + "\t" + key.validator);
            }
            out.flush();
            return;
        }
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String text = new String(Base64.getDecoder().decode(line), StandardCharsets.ISO_8859_1);
            String answer;
            try {
                start(text);
                answer = "ok";
            } catch (Throwable refused) {
                answer = "! " + refused.getClass().getSimpleName() + ": " + refused.getMessage();
            }
            out.println(answer.replace('\n', ' ').replace('\r', ' '));
        }
        out.flush();
    }

    private static void start(String text) throws Exception {
        Properties properties = new Properties();
        properties.load(new StringReader(text));
        KafkaConfig config = KafkaConfig.fromProps(properties, false);
        boolean replicates = !config.requiresZookeeper() || config.migrationEnabled();
        int segment = config.getInt("metadata.log.segment.bytes");
        // As KafkaMetadataLog refuses it once it opens the log.
        if (replicates && segment < config.getInt("metadata.log.segment.min.bytes")) {
            throw new IllegalArgumentException("metadata.log.segment.bytes");
        }
        String names = properties.getProperty("controller.listener.names", "").trim();
        if (!names.isEmpty()) {
            String name = names.split(",")[0];
            if (!config.effectiveListenerSecurityProtocolMap().contains(new ListenerName(name))) {
                SecurityProtocol.forName(name);
            }
        }
        if (config.requiresZookeeper() || config.migrationEnabled()) {
            ConnectStringParser parser = new ConnectStringParser(config.zkConnect());
            if (parser.getServerAddresses().isEmpty()) {
                throw new IllegalArgumentException("no server in zookeeper.connect");
            }
        }
    }
}
