package kraftbridge;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import kafka.network.SocketServer;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.network.ListenerName;

/**
 * The ports of a process's listeners, as the only thing that tests ask of a SocketServer. Made
 * without its constructor, which would open sockets.
 */
public final class BoundPorts extends SocketServer {
    private static final String[] SHARE = System.getProperty("kraftbridge.ports").split(",");
    private static final AtomicInteger NEXT = new AtomicInteger();

    private KafkaConfig config;
    private Map<String, Integer> ports;
    private String listeners;

    private BoundPorts() {
        super(null, null, null, null, null);
    }

    /** No ports yet. */
    public static BoundPorts of(KafkaConfig config) {
        BoundPorts made = Unmade.instance(BoundPorts.class);
        made.config = config;
        made.ports = new LinkedHashMap<>();
        return made;
    }

    /** Choose one for each listener with port 0, at the first start only. */
    public void choose() {
        StringBuilder all = new StringBuilder();
        for (String listener : String.valueOf(config.originals().get("listeners")).split(",")) {
            String one = listener.trim();
            int colon = one.lastIndexOf(':');
            String name = ListenerName.normalised(one.substring(0, one.indexOf("://"))).value();
            int asked = Integer.parseInt(one.substring(colon + 1));
            int port = asked != 0 ? asked : ports.computeIfAbsent(name, key -> free());
            ports.put(name, port);
            all.append(all.length() == 0 ? "" : ",").append(one, 0, colon + 1).append(port);
        }
        listeners = all.toString();
    }

    /** The value of the property {@code listeners} with these ports. */
    String listeners() {
        return listeners;
    }

    /** Of the first listener. */
    public int first() {
        return ports.values().iterator().next();
    }

    @Override
    public KafkaConfig config() {
        return config;
    }

    @Override
    public int boundPort(ListenerName name) {
        Integer port = ports.get(name.value());
        if (port == null) {
            throw new KafkaException("Tried to check for port of non-existing protocol " + name.value());
        }
        return port;
    }

    /** The next port of this run's share, {@code kraftbridge.ports}, that nothing listens on. */
    static int free() {
        for (;;) {
            int port = Integer.parseInt(SHARE[NEXT.getAndIncrement() % SHARE.length]);
            try (ServerSocket probe = new ServerSocket()) {
                probe.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
                return port;
            } catch (IOException taken) {
                continue;
            }
        }
    }
}
