import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import java.util.concurrent.locks.LockSupport;
import org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.zookeeper.server.ServerConfig;
import org.apache.zookeeper.server.ZooKeeperServer;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;

/**
 * A stand-alone ZooKeeper on a slow disk: each sync of its transaction log takes longer by a time drawn
 * from a file. Arguments: zoo.cfg. Property slowlog.delays: a file, one number of ms on each line.
 *
 * <p>ZooKeeper syncs in one thread, so requests that come meanwhile share the next sync, as on a disk.
 */
public final class SlowLog extends FileTxnSnapLog {
    private final long[] delaysNs;
    private final Random random = new Random(0);

    private SlowLog(File log, File data, long[] delaysNs) throws IOException {
        super(log, data);
        this.delaysNs = delaysNs;
    }

    @Override
    public void commit() throws IOException {
        long end = System.nanoTime() + delaysNs[random.nextInt(delaysNs.length)];
        super.commit();
        // What the disk itself took is part of it, or the delays of a disk would be added to another's.
        for (long left = end - System.nanoTime(); left > 0; left = end - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }

    public static void main(String[] arguments) throws Exception {
        ServerConfig config = new ServerConfig();
        config.parse(arguments[0]);
        List<String> lines = Files.readAllLines(Path.of(System.getProperty("slowlog.delays")));
        long[] delays = lines.stream().mapToLong(one -> (long) (Double.parseDouble(one) * 1e6)).toArray();
        SlowLog log = new SlowLog(config.getDataLogDir(), config.getDataDir(), delays);
        ZooKeeperServer server = new ZooKeeperServer(log, config.getTickTime(), "");
        log.setServerStats(server.serverStats());
        server.setMinSessionTimeout(config.getMinSessionTimeout());
        server.setMaxSessionTimeout(config.getMaxSessionTimeout());
        ServerCnxnFactory factory = ServerCnxnFactory.createFactory();
        factory.configure(config.getClientPortAddress(), config.getMaxClientCnxns(), -1);
        factory.startup(server);
        factory.join();
    }
}
