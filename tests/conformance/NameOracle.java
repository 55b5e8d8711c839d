import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import javax.security.auth.x500.X500Principal;

/**
 * Asks the JDK for the text of names in certificates, from which Kafka makes principals.
 *
 * Standard input: one name a line, DER in base64. Standard output: one line for each, the text in base64, or "!".
 */
public final class NameOracle {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                String name = new X500Principal(Base64.getDecoder().decode(line)).getName();
                answer = Base64.getEncoder().encodeToString(name.getBytes(StandardCharsets.UTF_8));
            } catch (IllegalArgumentException refused) {
                answer = "!";
            }
            out.println(answer);
        }
        out.flush();
    }
}
