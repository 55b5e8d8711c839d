package kraftbridge;

import kafka.raft.KafkaRaftManager;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.raft.KafkaRaftClient;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.raft.ReplicatedLog;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import scala.Option;

/** The observer's log under the name of the controller's: a test that shuts it down ends the process. */
public final class ShownRaftManager extends KafkaRaftManager<ApiMessageAndVersion> {
    private Observer observer;
    private ControllerProcess process;

    private ShownRaftManager() {
        super(null, null, null, null, null, null, null, null, null, null, null, null, null);
    }

    /** Of these two. */
    public static ShownRaftManager of(Observer observer, ControllerProcess process) {
        ShownRaftManager made = Unmade.instance(ShownRaftManager.class);
        made.observer = observer;
        made.process = process;
        return made;
    }

    @Override
    public void shutdown() {
        process.stop();
    }

    @Override
    public ReplicatedLog replicatedLog() {
        return observer.raftManager().replicatedLog();
    }

    @Override
    public KafkaRaftClient<ApiMessageAndVersion> client() {
        return observer.raftManager().client();
    }

    @Override
    public LeaderAndEpoch leaderAndEpoch() {
        return observer.raftManager().leaderAndEpoch();
    }

    @Override
    public Option<Node> voterNode(int id, ListenerName listener) {
        return observer.raftManager().voterNode(id, listener);
    }
}
