import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;

/** Results of an admin client as lines that do not depend on the order of hash maps. */
final class Shown {

    /** One call; what it returns is shown. */
    interface Call {
        Object make() throws Exception;
    }

    private Shown() { }

    /** What became of a call: each future by its key, or what was raised. */
    static String of(Call call) {
        try {
            return lines(call.make());
        } catch (Throwable thrown) {
            return error(thrown);
        }
    }

    private static String lines(Object value) throws Exception {
        if (!(value instanceof Map)) return text(value);
        List<String> found = new ArrayList<>();
        for (Map.Entry<?, ?> each : ((Map<?, ?>) value).entrySet()) {
            found.add(text(each.getKey()) + ": " + of(each::getValue));
        }
        return String.join("\n", found);
    }

    private static String text(Object value) throws Exception {
        if (value instanceof KafkaFuture) return text(((KafkaFuture<?>) value).get(20, TimeUnit.SECONDS));
        if (value instanceof Config) return config((Config) value);
        // Ports differ from run to run, and so would the order.
        if (value instanceof Node) return ((Node) value).idString() + " rack " + ((Node) value).rack();
        if (value instanceof Map) {
            Map<String, String> sorted = new TreeMap<>();
            for (Map.Entry<?, ?> each : ((Map<?, ?>) value).entrySet()) {
                sorted.put(text(each.getKey()), text(each.getValue()));
            }
            return sorted.toString();
        }
        if (value instanceof Set) {
            Set<String> sorted = new TreeSet<>();
            for (Object each : (Set<?>) value) sorted.add(text(each));
            return sorted.toString();
        }
        if (value instanceof Collection) {
            List<String> sorted = new ArrayList<>();
            for (Object each : (Collection<?>) value) sorted.add(text(each));
            sorted.sort(null);
            return sorted.toString();
        }
        return String.valueOf(value);
    }

    private static String config(Config config) {
        Set<String> sorted = new TreeSet<>();
        for (ConfigEntry each : config.entries()) sorted.add("\n    " + entry(each));
        return sorted.toString();
    }

    private static String entry(ConfigEntry entry) {
        String printed = entry.toString();
        if (!printed.contains("ConfigEntry@")) return printed;
        // The first client's entries do not print themselves.
        return entry.name() + "=" + entry.value() + " default " + entry.isDefault()
            + " sensitive " + entry.isSensitive() + " read-only " + entry.isReadOnly();
    }

    private static String error(Throwable thrown) {
        Throwable cause = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
        return cause.getClass().getSimpleName() + ": " + cause.getMessage();
    }
}
