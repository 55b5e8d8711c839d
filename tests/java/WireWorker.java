import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageSizeAccumulator;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.record.BaseRecords;
import org.apache.kafka.common.record.MemoryRecords;

/** Reads and writes one message with the Kafka classes beside which it was loaded. */
public final class WireWorker {
    /** Kafka writes records to sockets without a copy; here they go into the buffer. */
    private static final class Buffer extends ByteBufferAccessor {
        Buffer(ByteBuffer buffer) {
            super(buffer);
        }

        @Override
        public void writeRecords(BaseRecords records) {
            writeByteBuffer(((MemoryRecords) records).buffer().duplicate());
        }
    }

    public static String again(String className, short version, String hex) {
        try {
            ByteBufferAccessor read = new ByteBufferAccessor(ByteBuffer.wrap(HexFormat.of().parseHex(hex)));
            Message message = (Message) Class.forName(className).getDeclaredConstructor().newInstance();
            message.read(read, version);
            if (read.remaining() != 0) {
                return "! " + read.remaining() + " bytes left over";
            }
            ObjectSerializationCache cache = new ObjectSerializationCache();
            MessageSizeAccumulator size = new MessageSizeAccumulator();
            message.addSize(size, cache, version);
            ByteBuffer written = ByteBuffer.allocate(size.totalSize());
            message.write(new Buffer(written), cache, version);
            return HexFormat.of().formatHex(written.array(), 0, written.position());
        } catch (ReflectiveOperationException | RuntimeException | LinkageError error) {
            return ("! " + error).replace('\n', ' ');
        }
    }
}
