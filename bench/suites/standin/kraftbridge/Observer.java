package kraftbridge;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import kafka.raft.KafkaRaftManager;
import kafka.server.KafkaConfig;
import kafka.server.NodeToControllerChannelManagerImpl;
import kafka.server.RaftControllerNodeProvider;
import kafka.server.SharedServer;
import org.apache.kafka.clients.ClientResponse;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.image.loader.MetadataLoader;
import org.apache.kafka.image.publisher.MetadataPublisher;
import org.apache.kafka.metadata.properties.MetaProperties;
import org.apache.kafka.metadata.properties.MetaPropertiesEnsemble;
import org.apache.kafka.metadata.properties.MetaPropertiesVersion;
import org.apache.kafka.server.ControllerRequestCompletionHandler;
import org.apache.kafka.server.NodeToControllerChannelManager;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Kafka's own observer of the metadata log, as a broker has one, and its connection to the active
 * controller. Its node id is that of the controller and 20,000.
 */
public final class Observer {
    private static final int IDS = 20_000;
    private static final long PATIENCE_MS = 60_000;
    private static final String LISTENER = "OBSERVER";

    private final ControllerProcess process;
    private final Path folder;
    private final SharedServer shared;
    private final KafkaConfig config;
    private NodeToControllerChannelManager channel;

    /** Not started. */
    public Observer(KafkaConfig controller, SharedServer of, ControllerProcess process) throws IOException {
        this.process = process;
        folder = Files.createTempDirectory("kraft-bridge-observer");
        config = new KafkaConfig(properties(controller, folder), false);
        shared = new SharedServer(
            config, formatted(of.clusterId()), Time.SYSTEM, new Metrics(), of.controllerQuorumVotersFuture(),
            Collections.emptyList(), of.faultHandlerFactory());
    }

    private static Map<String, Object> properties(KafkaConfig controller, Path folder) {
        Map<String, Object> found = new HashMap<>();
        controller.originals().forEach((key, value) -> {
            if (key.startsWith("ssl.") || key.startsWith("sasl.") || key.startsWith("listener.name.")
                || key.startsWith("controller.") || key.startsWith("unstable.")) {
                found.put(key, value);
            }
        });
        Object map = controller.originals().get("listener.security.protocol.map");
        String name = controller.controllerListenerNames().iterator().next();
        found.put("listener.security.protocol.map", (map == null ? name + ":PLAINTEXT" : map) + "," + LISTENER + ":PLAINTEXT");
        found.put("inter.broker.listener.name", LISTENER);
        found.put("listeners", LISTENER + "://localhost:0");
        found.put("process.roles", "broker");
        found.put("node.id", Integer.toString(IDS + controller.nodeId()));
        found.put("log.dirs", folder.toString());
        return found;
    }

    private MetaPropertiesEnsemble formatted(String clusterId) throws IOException {
        String place = folder.toString();
        MetaPropertiesEnsemble.Copier copier = new MetaPropertiesEnsemble.Copier(
            new MetaPropertiesEnsemble.Loader().addLogDirs(List.of(place)).addMetadataLogDir(place).load());
        copier.setLogDirProps(place, new MetaProperties.Builder()
            .setVersion(MetaPropertiesVersion.V1)
            .setClusterId(clusterId)
            .setNodeId(config.nodeId())
            .setDirectoryId(Uuid.randomUuid())
            .build());
        copier.writeLogDirChanges();
        return copier.copy();
    }

    /** Follow the log; the result is complete when these have all that was there. */
    public CompletableFuture<Void> start(List<MetadataPublisher> publishers) {
        shared.startForBroker();
        channel = new NodeToControllerChannelManagerImpl(
            RaftControllerNodeProvider.apply(shared.raftManager(), config), Time.SYSTEM, shared.metrics(), config,
            "stand-in", "stand-in-" + config.nodeId() + "-", PATIENCE_MS);
        channel.start();
        return shared.loader().installPublishers(publishers);
    }

    public KafkaRaftManager<ApiMessageAndVersion> raftManager() {
        return shared.raftManager();
    }

    public MetadataLoader loader() {
        return shared.loader();
    }

    /** Wait until it has applied all that was committed when this was called. */
    public void catchUp() {
        long committed = process.status().at("/offsets/stable").asLong(-1);
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE_MS);
        while (loader().lastAppliedOffset() < committed) {
            if (System.nanoTime() > end) {
                throw new TimeoutException("the observer has not reached offset " + committed);
            }
            Utils.sleep(5);
        }
    }

    /** Send a request to the active controller. */
    public <T> CompletableFuture<T> send(
        AbstractRequest.Builder<? extends AbstractRequest> request, Function<AbstractResponse, T> read
    ) {
        CompletableFuture<T> answer = new CompletableFuture<>();
        channel.sendRequest(request, new ControllerRequestCompletionHandler() {
            @Override
            public void onTimeout() {
                answer.completeExceptionally(new TimeoutException("the controller does not answer"));
            }

            @Override
            public void onComplete(ClientResponse response) {
                if (response.authenticationException() != null) {
                    answer.completeExceptionally(response.authenticationException());
                } else if (response.versionMismatch() != null) {
                    answer.completeExceptionally(response.versionMismatch());
                } else {
                    complete(answer, read, response.responseBody());
                }
            }
        });
        return answer;
    }

    private static <T> void complete(CompletableFuture<T> answer, Function<AbstractResponse, T> read, AbstractResponse body) {
        try {
            answer.complete(read.apply(body));
        } catch (RuntimeException error) {
            answer.completeExceptionally(error);
        }
    }

    /** Stop following, and remove its folder. */
    public void stop() {
        if (channel != null) {
            channel.shutdown();
        }
        shared.stopForBroker();
        try {
            Utils.delete(folder.toFile());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
