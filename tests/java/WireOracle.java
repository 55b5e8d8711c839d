import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Asks Kafka's own message classes, of several releases in one process, to read bytes and to write them again.
 *
 * Arguments: for each release its name and its class path, which must hold WireWorker too. Standard input: one case a
 * line, "release class version hex". Standard output: one line for each, the hex of what was written, or "! why".
 */
public final class WireOracle {
    public static void main(String[] arguments) throws Exception {
        Map<String, Method> workers = new HashMap<>();
        for (int i = 0; i < arguments.length; i += 2) {
            List<URL> jars = new ArrayList<>();
            for (String jar : arguments[i + 1].split(File.pathSeparator)) {
                jars.add(new File(jar).toURI().toURL());
            }
            ClassLoader loader =
                new URLClassLoader(jars.toArray(new URL[0]), ClassLoader.getPlatformClassLoader());
            Method again =
                loader.loadClass("WireWorker").getMethod("again", String.class, short.class, String.class);
            workers.put(arguments[i], again);
        }
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] part = line.split(" ", -1);
            out.println(workers.get(part[0]).invoke(null, part[1], Short.parseShort(part[2]), part[3]));
        }
        out.flush();
    }
}
