package kraftbridge;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.MissingNode;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.URL;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import kafka.server.KafkaConfig;
import kafka.server.SharedServer;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.metadata.bootstrap.BootstrapDirectory;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * One process of {@code kraft-bridge controller}, in the folder that Kafka's harness has formatted.
 *
 * <p>System properties: {@code kraftbridge.python}, what runs it; {@code kraftbridge.folder}, where its
 * properties and output go; {@code kraftbridge.ports}, the first port of this run's share.
 */
public final class ControllerProcess {
    private static final AtomicInteger COUNT = new AtomicInteger();
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String MAIN = "from emulator.cli import main; main()";
    private static final long STARTED_S = 60;
    private static final long ENDED_S = 30;
    private static final int ANSWER_MS = 5_000;
    private static final int LINES = 8;

    private final KafkaConfig config;
    private final String clusterId;
    private final int metricsPort;
    private final Path file;
    private final Path output;
    private Process process;

    /** Written, not started: waits until the ports of all voters are known. */
    public ControllerProcess(
        KafkaConfig config, SharedServer shared, BoundPorts ports, BootstrapMetadata bootstrap
    ) throws Exception {
        this.config = config;
        this.clusterId = shared.clusterId();
        this.metricsPort = BoundPorts.free();
        Path folder = Path.of(System.getProperty("kraftbridge.folder"));
        Files.createDirectories(folder);
        String name = COUNT.incrementAndGet() + "-controller-" + config.nodeId();
        file = folder.resolve(name + ".properties");
        output = folder.resolve(name + ".out");
        Map<Integer, InetSocketAddress> voters = shared.controllerQuorumVotersFuture().get();
        write(properties(ports, voters));
        if (!log().isDirectory()) {
            writeBootstrap(bootstrap);
            if (voters.size() > 1) {
                run("format", "-c", file.toString(), "-t", clusterId, "-g", "--new-quorum", "--unchecked").waitFor();
            }
        }
    }

    private File log() {
        return new File(config.metadataLogDir(), "__cluster_metadata-0");
    }

    private Map<String, String> properties(BoundPorts ports, Map<Integer, InetSocketAddress> voters) throws Exception {
        Map<String, String> found = OwnProperties.of(config, file);
        List<String> quorum = new ArrayList<>();
        voters.forEach((id, address) -> quorum.add(id + "@" + address.getHostString() + ":" + address.getPort()));
        found.put("listeners", ports.listeners());
        found.put("controller.quorum.voters", String.join(",", quorum));
        found.put("kraftbridge.metrics.port", Integer.toString(metricsPort));
        found.put("kraftbridge.finalization", "kafka");
        return found;
    }

    private void write(Map<String, String> found) throws IOException {
        Properties written = new Properties();
        written.putAll(found);
        try (OutputStream out = Files.newOutputStream(file)) {
            written.store(out, null);
        }
    }

    /** What the folder begins with: records of 3.9, which is what kraft-bridge has. */
    private void writeBootstrap(BootstrapMetadata given) throws Exception {
        List<ApiMessageAndVersion> records = new ArrayList<>();
        for (ApiMessageAndVersion record : given.records()) {
            if (record.message() instanceof FeatureLevelRecord level) {
                if (!level.name().equals(MetadataVersion.FEATURE_NAME)) {
                    continue;
                }
                short newest = MetadataVersion.latestProduction().featureLevel();
                short asked = (short) Math.min(level.featureLevel(), newest);
                records.add(new ApiMessageAndVersion(level.duplicate().setFeatureLevel(asked), record.version()));
            } else {
                records.add(record);
            }
        }
        new BootstrapDirectory(config.metadataLogDir(), Optional.empty())
            .writeBinaryFile(BootstrapMetadata.fromRecords(records, given.source()));
    }

    /** Start it; returns when it answers. */
    public void start() throws Exception {
        process = run("controller", "-c", file.toString());
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(STARTED_S);
        while (status().isMissingNode()) {
            if (!process.isAlive()) {
                throw new IllegalStateException("kraft-bridge ended with " + process.exitValue() + ": " + said());
            }
            if (System.nanoTime() > end) {
                throw new IllegalStateException("kraft-bridge did not answer within " + STARTED_S + " s: " + said());
            }
            Thread.sleep(50);
        }
    }

    private Process run(String... arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(System.getProperty("kraftbridge.python"), "-c", MAIN));
        command.addAll(List.of(arguments));
        return new ProcessBuilder(command)
            .redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.appendTo(output.toFile()))
            .start();
    }

    private String said() throws IOException {
        List<String> lines = Files.readAllLines(output);
        return String.join("\n", lines.subList(Math.max(0, lines.size() - LINES), lines.size()));
    }

    /** The document of {@code /status}; a missing node if there is no answer. */
    public JsonNode status() {
        try {
            HttpURLConnection asked =
                (HttpURLConnection) new URL("http://localhost:" + metricsPort + "/status").openConnection();
            asked.setConnectTimeout(ANSWER_MS);
            asked.setReadTimeout(ANSWER_MS);
            try (InputStream in = asked.getInputStream()) {
                return JSON.readTree(in);
            }
        } catch (IOException none) {
            return MissingNode.getInstance();
        }
    }

    /** Whether it runs. */
    boolean alive() {
        return process != null && process.isAlive();
    }

    /** End it in order; by force after 30 s. */
    public void stop() {
        if (process == null) {
            return;
        }
        process.destroy();
        try {
            if (!process.waitFor(ENDED_S, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
            }
        } catch (InterruptedException interrupted) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }
}
