package kafka.server;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import kafka.network.SocketServer;
import kafka.raft.KafkaRaftManager;
import kafka.server.metadata.KRaftMetadataCache;
import kafka.server.metadata.KRaftMetadataCachePublisher;
import kraftbridge.BoundPorts;
import kraftbridge.ControllerProcess;
import kraftbridge.Observer;
import kraftbridge.ShownRaftManager;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.controller.QuorumController;
import org.apache.kafka.controller.metrics.QuorumControllerMetrics;
import org.apache.kafka.image.publisher.ControllerRegistrationsPublisher;
import org.apache.kafka.image.publisher.MetadataPublisher;
import org.apache.kafka.metadata.KafkaConfigSchema;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.metadata.migration.ShownMigration;
import org.apache.kafka.metadata.publisher.FeaturesPublisher;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.metrics.KafkaYammerMetrics;
import scala.Option;

/**
 * Stands where Kafka's own test harness makes its controller: in front of Kafka's class of this name
 * on the class path. It starts a process of kraft-bridge with the properties and the formatted folder
 * that the harness has made, and answers what tests ask of the object from Kafka's own observer of
 * that process's metadata log. What is null here is in the other process: metrics, quotas, threads.
 */
public class ControllerServer {
    private static final long LOADED_MS = 60_000;

    private final SharedServer sharedServer;
    private final KafkaConfigSchema configSchema;
    private final BootstrapMetadata bootstrapMetadata;
    private final LogContext logContext;
    private final CompletableFuture<Integer> firstPort = new CompletableFuture<>();
    private final BoundPorts ports;
    private volatile ControllerProcess process;
    private volatile Observer observer;
    private volatile QuorumController controller;
    private volatile CountDownLatch ended = new CountDownLatch(0);
    private Option<Authorizer> authorizer = Option.empty();
    private Option<ControllerMigrationSupport> migrationSupport = Option.empty();
    private KRaftMetadataCache metadataCache;
    private FeaturesPublisher featuresPublisher;
    private ControllerRegistrationsPublisher registrationsPublisher;

    public ControllerServer(
        SharedServer sharedServer, KafkaConfigSchema configSchema, BootstrapMetadata bootstrapMetadata
    ) {
        this.sharedServer = sharedServer;
        this.configSchema = configSchema;
        this.bootstrapMetadata = bootstrapMetadata;
        this.logContext = new LogContext("[kraft-bridge id=" + config().nodeId() + "] ");
        this.ports = BoundPorts.of(config());
        if (String.valueOf(config().originals().get("process.roles")).contains(",")) {
            throw new UnsupportedOperationException(
                "kraft-bridge has no combined mode: process.roles=broker,controller");
        }
    }

    /** Start the process and the observer; returns when the log is followed, in a migration at once. */
    public synchronized void startup() {
        if (process != null) {
            return;
        }
        ended = new CountDownLatch(1);
        try {
            ports.choose();
            firstPort.complete(ports.first());
            process = new ControllerProcess(config(), sharedServer, ports, bootstrapMetadata);
            process.start();
            observer = new Observer(config(), sharedServer, process);
            controller = new QuorumController(config().nodeId(), process, observer);
            CompletableFuture<Void> installed = observer.start(publishers());
            sharedServer.raftManager_$eq(ShownRaftManager.of(observer, process));
            sharedServer.loader_$eq(observer.loader());
            if (config().migrationEnabled()) {
                migrationSupport = Option.apply(
                    new ControllerMigrationSupport(null, ShownMigration.of(process), null));
            } else {
                installed.get(LOADED_MS, TimeUnit.MILLISECONDS);
            }
        } catch (Throwable error) {
            sharedServer.controllerStartupFaultHandler().handleFault("caught exception", error);
            shutdown();
            throw new RuntimeException(error.getMessage(), error);
        }
    }

    private List<MetadataPublisher> publishers() {
        List<MetadataPublisher> all = new ArrayList<>();
        metadataCache = MetadataCache.kRaftMetadataCache(
            config().nodeId(), () -> observer.raftManager().client().kraftVersion());
        featuresPublisher = new FeaturesPublisher(logContext);
        registrationsPublisher = new ControllerRegistrationsPublisher();
        all.add(new KRaftMetadataCachePublisher(metadataCache));
        all.add(featuresPublisher);
        all.add(registrationsPublisher);
        all.add(controller);
        if (config().originals().get("authorizer.class.name") != null) {
            StandardAuthorizer asked = new StandardAuthorizer();
            asked.configure(config().originals());
            asked.setAclMutator(controller);
            authorizer = Option.apply(asked);
            all.add(new kafka.server.metadata.AclPublisher(
                config().nodeId(), sharedServer.metadataPublishingFaultHandler(), "controller", authorizer));
        }
        return all;
    }

    /** End the observer and the process. */
    public synchronized void shutdown() {
        if (observer != null) {
            sharedServer.raftManager_$eq(null);
            sharedServer.loader_$eq(null);
            observer.stop();
            observer = null;
        }
        if (process != null) {
            process.stop();
            process = null;
        }
        firstPort.completeExceptionally(new RuntimeException("shutting down"));
        ended.countDown();
    }

    public void awaitShutdown() {
        try {
            ended.await();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    public SharedServer sharedServer() {
        return sharedServer;
    }

    public KafkaConfigSchema configSchema() {
        return configSchema;
    }

    public BootstrapMetadata bootstrapMetadata() {
        return bootstrapMetadata;
    }

    public KafkaConfig config() {
        return sharedServer.controllerConfig();
    }

    public LogContext logContext() {
        return logContext;
    }

    public Time time() {
        return sharedServer.time();
    }

    public Metrics metrics() {
        return sharedServer.metrics();
    }

    public String clusterId() {
        return sharedServer.clusterId();
    }

    public CompletableFuture<Integer> socketServerFirstBoundPortFuture() {
        return firstPort;
    }

    public SocketServer socketServer() {
        return ports;
    }

    public Controller controller() {
        return controller;
    }

    /** Of the observer, once it has all that the process had when it was asked. */
    public KafkaRaftManager<ApiMessageAndVersion> raftManager() {
        Observer following = observer;
        if (following == null) {
            return null;
        }
        following.catchUp();
        return sharedServer.raftManager();
    }

    public Option<Authorizer> authorizer() {
        return authorizer;
    }

    public Option<ControllerMigrationSupport> migrationSupport() {
        return migrationSupport;
    }

    public KRaftMetadataCache metadataCache() {
        return metadataCache;
    }

    public FeaturesPublisher featuresPublisher() {
        return featuresPublisher;
    }

    public ControllerRegistrationsPublisher registrationsPublisher() {
        return registrationsPublisher;
    }

    public KafkaYammerMetrics kafkaYammerMetrics() {
        return KafkaYammerMetrics.INSTANCE;
    }

    public QuorumControllerMetrics quorumControllerMetrics() {
        throw inTheOtherProcess("quorumControllerMetrics");
    }

    public QuotaFactory.QuotaManagers quotaManagers() {
        throw inTheOtherProcess("quotaManagers");
    }

    public ControllerApis controllerApis() {
        throw inTheOtherProcess("controllerApis");
    }

    public KafkaRequestHandlerPool controllerApisHandlerPool() {
        throw inTheOtherProcess("controllerApisHandlerPool");
    }

    private static UnsupportedOperationException inTheOtherProcess(String what) {
        return new UnsupportedOperationException(
            "the controller is another process, whose " + what + " no object here shows");
    }
}
