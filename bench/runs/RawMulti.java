import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.zookeeper.AsyncCallback.MultiCallback;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;

/**
 * How many znodes ZooKeeper creates each second, asked by its own asynchronous client: multis of so many creations, so
 * many in flight. Arguments: servers, znodes, operations of a multi, multis in flight, bytes of a znode. Standard
 * output: nanoseconds from the first multi to the last answer, then the latency of a multi, median and 99th percentile.
 */
public final class RawMulti {
    private static final String PARENT = "/raw";

    private static long[] write(ZooKeeper client, String prefix, int znodes, int ops, int window, byte[] data)
            throws Exception {
        int multis = (znodes + ops - 1) / ops;
        long[] latencies = new long[multis];
        Semaphore room = new Semaphore(window);
        CountDownLatch left = new CountDownLatch(multis);
        AtomicReference<String> failed = new AtomicReference<>();
        long began = System.nanoTime();
        for (int multi = 0; multi < multis; multi++) {
            List<Op> batch = new ArrayList<>(ops);
            for (int at = multi * ops; at < Math.min(znodes, (multi + 1) * ops); at++) {
                batch.add(Op.create(PARENT + "/" + prefix + at, data, ZooDefs.Ids.OPEN_ACL_UNSAFE,
                        CreateMode.PERSISTENT));
            }
            room.acquire();
            int number = multi;
            long sent = System.nanoTime();
            MultiCallback done = (code, path, context, results) -> {
                latencies[number] = System.nanoTime() - sent;
                if (code != KeeperException.Code.OK.intValue()) {
                    failed.set(KeeperException.Code.get(code).toString());
                }
                room.release();
                left.countDown();
            };
            client.multi(batch, done, null);
        }
        left.await();
        long took = System.nanoTime() - began;
        if (failed.get() != null) {
            throw new IllegalStateException("a multi failed: " + failed.get());
        }
        Arrays.sort(latencies);
        return new long[] {took, latencies[multis / 2], latencies[Math.min(multis - 1, multis * 99 / 100)]};
    }

    public static void main(String[] arguments) throws Exception {
        int znodes = Integer.parseInt(arguments[1]);
        int ops = Integer.parseInt(arguments[2]);
        int window = Integer.parseInt(arguments[3]);
        byte[] data = new byte[Integer.parseInt(arguments[4])];
        Arrays.fill(data, (byte) 'x');
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper(arguments[0], 60_000, event -> connected.countDown());
        connected.await();
        client.create(PARENT, new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        // The first tenth compiles the client's code.
        write(client, "w", Math.max(ops, znodes / 10), ops, window, data);
        long[] found = write(client, "m", znodes, ops, window, data);
        client.close();
        System.out.println(found[0] + " " + found[1] + " " + found[2]);
    }
}
