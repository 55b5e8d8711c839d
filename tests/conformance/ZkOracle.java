import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.scram.ScramCredential;
import org.apache.kafka.common.security.scram.internals.ScramCredentialUtils;
import org.apache.kafka.common.utils.Sanitizer;
import org.apache.kafka.security.PasswordEncoder;

/**
 * Asks Kafka's own classes about values and names in ZooKeeper.
 *
 * Standard input: one question a line, words separated by blanks, texts in base64 ("=" for none). Standard output:
 * one line for each, a text in base64 or a word, or "! why".
 */
public final class ZkOracle {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = answer(line.split(" ", -1));
            } catch (Exception error) {
                answer = "! " + error;
            }
            out.println(answer.replace('\n', ' '));
        }
        out.flush();
    }

    private static String answer(String[] word) throws Exception {
        switch (word[0]) {
            case "encode":
                return coded(encoder(word).encode(new Password(text(word[6]))));
            case "decode":
                return coded(encoder(word).decode(text(word[6])).value());
            case "password-config":
                return String.valueOf(kafka.server.DynamicBrokerConfig.isPasswordConfig(text(word[1])));
            case "password-configs":
                return coded(String.join(",", new java.util.TreeSet<>(
                    scala.jdk.javaapi.CollectionConverters.asJava(
                        kafka.server.DynamicBrokerConfig.AllDynamicConfigs())
                        .stream().filter(kafka.server.DynamicBrokerConfig::isPasswordConfig).toList())));
            case "sanitize":
                return coded(Sanitizer.sanitize(text(word[1])));
            case "desanitize":
                return coded(Sanitizer.desanitize(text(word[1])));
            case "double":
                return coded(Double.toString(Double.longBitsToDouble(Long.parseLong(word[1]))));
            case "number":
                return String.valueOf(Double.doubleToLongBits(Double.parseDouble(text(word[1]))));
            case "scram":
                ScramCredential read = ScramCredentialUtils.credentialFromString(text(word[1]));
                return coded(ScramCredentialUtils.credentialToString(read));
            case "config":
                // What a broker in ZooKeeper mode makes of a znode: its keys and values by type.
                return typed(word[1], kafka.zk.ConfigEntityZNode.decode(bytes(word[2])));
            case "ip":
                // The address is looked at before the limit is handed on, here to nobody.
                try {
                    new kafka.server.IpConfigHandler(null).processConfigChanges(text(word[1]), new Properties());
                } catch (NullPointerException handedOn) {
                    return "read";
                }
                return "! not handed on";
            case "config-data":
                Properties written = new Properties();
                for (int i = 1; i < word.length; i += 2) {
                    written.setProperty(text(word[i]), text(word[i + 1]));
                }
                return Base64.getEncoder().encodeToString(kafka.zk.ConfigEntityZNode.encode(written));
            default:
                return "! unknown question";
        }
    }

    private static String typed(String kind, Properties config) {
        Map<String, Object> found;
        switch (kind) {
            case "users":
                found = kafka.server.DynamicConfig.User$.MODULE$.validate(config);
                break;
            case "clients":
                found = kafka.server.DynamicConfig.Client$.MODULE$.validate(config);
                break;
            case "ips":
                found = kafka.server.DynamicConfig.Ip$.MODULE$.validate(config);
                break;
            default:
                found = new TreeMap<>();
                config.stringPropertyNames().forEach(key -> found.put(key, config.getProperty(key)));
        }
        StringBuilder line = new StringBuilder();
        for (String key : new java.util.TreeSet<>(config.stringPropertyNames())) {
            Object value = found.get(key);
            String shown = value instanceof Number
                ? String.valueOf(Double.doubleToLongBits(((Number) value).doubleValue()))
                : coded(String.valueOf(value));
            line.append(line.length() == 0 ? "" : " ").append(coded(key)).append(' ').append(shown);
        }
        return line.toString();
    }

    private static byte[] bytes(String word) {
        return Base64.getDecoder().decode(word);
    }

    private static PasswordEncoder encoder(String[] word) {
        return PasswordEncoder.encrypting(
            new Password(text(word[1])), word[2], word[3], Integer.parseInt(word[4]), Integer.parseInt(word[5]));
    }

    private static String text(String word) {
        return word.equals("=") ? "" : new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }

    private static String coded(String text) {
        return text.isEmpty() ? "=" : Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
