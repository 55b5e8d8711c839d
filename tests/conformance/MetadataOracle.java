import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;

import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.migration.ZkMigrationState;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Says what Kafka's own classes make of the metadata.version table ("table"), of the numbers of the
 * migration state ("states"), and of metadata logs ("replay": logs as counts and length-prefixed
 * record values on standard input, their snapshots in the same form on standard output).
 */
public final class MetadataOracle {
    private static final MetadataRecordSerde SERDE = new MetadataRecordSerde();

    public static void main(String[] arguments) throws IOException {
        if (arguments[0].equals("table")) {
            table();
        } else if (arguments[0].equals("states")) {
            for (byte value = 0; value <= 3; value++) {
                System.out.println(value + " " + ZkMigrationState.of(value).name());
            }
        } else {
            replay(new DataInputStream(System.in), new DataOutputStream(System.out));
        }
    }

    private static void table() {
        for (MetadataVersion one : MetadataVersion.VERSIONS) {
            if (one.isKRaftSupported() && one.isProduction()) {
                System.out.println(String.join(" ",
                    "" + one.featureLevel(),
                    one.version(),
                    "" + one.didMetadataChange(),
                    "" + one.registerBrokerRecordVersion(),
                    "" + one.partitionRecordVersion(),
                    "" + one.partitionChangeRecordVersion(),
                    flags(
                        one.isLeaderRecoverySupported(),
                        one.isNoOpRecordSupported(),
                        one.isBrokerRegistrationChangeRecordSupported(),
                        one.isInControlledShutdownStateSupported(),
                        one.isMigrationSupported(),
                        one.isScramSupported(),
                        !one.isLeaderEpochBumpRequiredOnIsrShrink(),
                        one.isMetadataTransactionSupported(),
                        one.isDelegationTokenSupported(),
                        one.isControllerRegistrationSupported(),
                        one.isDirectoryAssignmentSupported()),
                    "" + MetadataVersion.fromVersionString(one.shortVersion()).featureLevel()));
            }
        }
    }

    private static String flags(boolean... values) {
        StringBuilder text = new StringBuilder();
        for (boolean value : values) {
            text.append(value ? '1' : '0');
        }
        return text.toString();
    }

    private static void replay(DataInputStream in, DataOutputStream out) throws IOException {
        for (int logs = in.readInt(); logs > 0; logs--) {
            MetadataImage image = MetadataImage.EMPTY;
            int count = in.readInt();
            for (int offset = 0; offset < count; offset++) {
                byte[] value = in.readNBytes(in.readInt());
                ApiMessageAndVersion record =
                    SERDE.read(new ByteBufferAccessor(ByteBuffer.wrap(value)), value.length);
                MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
                delta.replay(record.message());
                image = delta.apply(new MetadataProvenance(offset, 1, 0));
            }
            RecordListWriter writer = new RecordListWriter();
            image.write(writer, new ImageWriterOptions.Builder().
                setMetadataVersion(image.features().metadataVersion()).build());
            write(writer.records(), out);
        }
        out.flush();
    }

    private static void write(List<ApiMessageAndVersion> records, DataOutputStream out)
            throws IOException {
        out.writeInt(records.size());
        for (ApiMessageAndVersion record : records) {
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer buffer = ByteBuffer.allocate(SERDE.recordSize(record, cache));
            SERDE.write(record, cache, new ByteBufferAccessor(buffer));
            out.writeInt(buffer.capacity());
            out.write(buffer.array());
        }
    }
}
