import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageSizeAccumulator;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Times Kafka's own classes. Standard input: "class version hex" a line. Standard output: for each the nanoseconds of
 * this thread's CPU per decode and per encode, the median of rounds after a warm-up.
 */
public final class WireBench {
    private static final long WARM_UP_NS = 1_500_000_000L;
    private static final long ROUND_NS = 60_000_000L;
    private static final int ROUNDS = 9;
    private static final ThreadMXBean CPU = ManagementFactory.getThreadMXBean();

    private interface Work {
        int once() throws Exception;
    }

    private static int blackHole;
    private static volatile Object sink;

    private static long nanos(Work work, long budget) throws Exception {
        long start = CPU.getCurrentThreadCpuTime();
        long count = 0;
        long spent;
        do {
            blackHole += work.once();
            count++;
            spent = CPU.getCurrentThreadCpuTime() - start;
        } while (spent < budget);
        return spent / count;
    }

    /** Small messages are done many at a time: reading the clock costs more than they do. */
    private static Work many(Work work, int times) {
        return () -> {
            int sum = 0;
            for (int i = 0; i < times; i++) {
                sum += work.once();
            }
            return sum;
        };
    }

    private static double median(Work work, int times) throws Exception {
        Work repeated = many(work, times);
        nanos(repeated, WARM_UP_NS);
        long[] rounds = new long[ROUNDS];
        for (int i = 0; i < ROUNDS; i++) {
            rounds[i] = nanos(repeated, ROUND_NS);
        }
        Arrays.sort(rounds);
        return (double) rounds[ROUNDS / 2] / times;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] part = line.split(" ");
            Class<?> type = Class.forName(part[0]);
            short version = Short.parseShort(part[1]);
            byte[] data = HexFormat.of().parseHex(part[2]);
            Work decode = () -> {
                Message message = (Message) type.getDeclaredConstructor().newInstance();
                message.read(new ByteBufferAccessor(ByteBuffer.wrap(data)), version);
                sink = message;
                return 1;
            };
            Message whole = (Message) type.getDeclaredConstructor().newInstance();
            whole.read(new ByteBufferAccessor(ByteBuffer.wrap(data)), version);
            Work encode = () -> {
                ObjectSerializationCache cache = new ObjectSerializationCache();
                MessageSizeAccumulator size = new MessageSizeAccumulator();
                whole.addSize(size, cache, version);
                ByteBuffer buffer = ByteBuffer.allocate(size.totalSize());
                whole.write(new ByteBufferAccessor(buffer), cache, version);
                return buffer.position();
            };
            int times = data.length > 10_000 ? 1 : 1_000;
            System.out.println(median(decode, times) + " " + median(encode, times));
        }
        System.err.println(blackHole + " " + (sink != null));
    }
}
