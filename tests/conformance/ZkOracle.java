import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
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
            default:
                return "! unknown question";
        }
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
