import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.admin.UserScramCredentialAlteration;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;

/** Calls that the Admin clients of Kafka 3.9 and 4.3 both have. Arguments: HOST:PORT [CALL]. */
public final class AdminCalls {

    private static final Uuid NOWHERE = new Uuid(0, 7);
    private static final String ME = "User:ANONYMOUS";
    private static String connectedTo;
    private static Admin admin;
    private static Map<String, Shown.Call> calls;

    private AdminCalls() { }

    public static void main(String[] words) {
        if (!words[0].equals(connectedTo)) connect(words[0]);
        System.out.print(words.length == 1 ? String.join("\n", calls.keySet()) : Shown.of(calls.get(words[1])));
    }

    private static void connect(String bootstrap) {
        if (admin != null) admin.close();
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("request.timeout.ms", "10000");
        properties.put("default.api.timeout.ms", "15000");
        properties.put("enable.metrics.push", "false");
        admin = Admin.create(properties);
        connectedTo = bootstrap;
        calls = new LinkedHashMap<>();
        cluster();
        topics();
        partitions();
        configs();
        quotas();
        users();
        acls();
        moves();
        groups();
        denied();
        end();
    }

    private static void cluster() {
        calls.put("describeCluster", () -> {
            var found = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
            Map<String, Object> parts = new LinkedHashMap<>();
            parts.put("nodes", found.nodes());
            parts.put("clusterId", found.clusterId());
            parts.put("authorizedOperations", found.authorizedOperations());
            return parts;
        });
        calls.put("describeFeatures", () -> {
            var found = admin.describeFeatures().featureMetadata().get();
            return Map.of("finalized", found.finalizedFeatures(), "supported", found.supportedFeatures());
        });
        update("updateFeatures too high", (short) 99, FeatureUpdate.UpgradeType.UPGRADE, false);
        update("updateFeatures too low", (short) 1, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE, false);
        update("updateFeatures unsafe, validate", (short) 15, FeatureUpdate.UpgradeType.UNSAFE_DOWNGRADE, true);
        calls.put("describeMetadataQuorum", () -> {
            var found = admin.describeMetadataQuorum().quorumInfo().get();
            return Map.of("leader", found.leaderId(), "voters", found.voters().size(),
                "observers", found.observers().size());
        });
        calls.put("unregisterBroker nosuch", () -> admin.unregisterBroker(99).all());
        calls.put("describeLogDirs", () -> Map.of("directories",
            admin.describeLogDirs(List.of(0)).allDescriptions().get().get(0).size()));
        calls.put("listClientMetricsResources", () -> admin.listClientMetricsResources().all());
        calls.put("createDelegationToken", () -> admin.createDelegationToken().delegationToken());
        calls.put("describeDelegationToken", () -> admin.describeDelegationToken().delegationTokens());
        calls.put("renewDelegationToken", () -> admin.renewDelegationToken(new byte[4]).expiryTimestamp());
        calls.put("expireDelegationToken", () -> admin.expireDelegationToken(new byte[4]).expiryTimestamp());
    }

    private static void update(String name, short level, FeatureUpdate.UpgradeType how, boolean validate) {
        var options = new UpdateFeaturesOptions().validateOnly(validate);
        calls.put(name, () -> admin.updateFeatures(
            Map.of("metadata.version", new FeatureUpdate(level, how)), options).values());
    }

    private static void topics() {
        calls.put("createTopics j1", () -> made(admin.createTopics(
            List.of(new NewTopic("j1", assignment()).configs(Map.of("retention.ms", "9999"))))));
        create("createTopics j1 again", new NewTopic("j1", assignment()));
        create("createTopics two, one wrong", new NewTopic("j2", assignment()), new NewTopic("j9", 1, (short) 9));
        create("createTopics no partitions", new NewTopic("j9", 0, (short) 1));
        create("createTopics two dots", new NewTopic("..", 1, (short) 1));
        create("createTopics a gap", new NewTopic("j9", Map.of(0, List.of(0), 2, List.of(1))));
        create("createTopics uneven", new NewTopic("j9", Map.of(0, List.of(0), 1, List.of(0, 1))));
        create("createTopics unknown broker", new NewTopic("j9", Map.of(0, List.of(7))));
        create("createTopics unknown config", new NewTopic("j9", 1, (short) 1).configs(Map.of("no.such", "1")));
        create("createTopics too many partitions", new NewTopic("j9", 10_001, (short) 1));
        create("createTopics bad policy",
            new NewTopic("j9", 1, (short) 1).configs(Map.of("cleanup.policy", "burn")));
        calls.put("createTopics validate", () -> made(admin.createTopics(
            List.of(new NewTopic("jv", Optional.of(2), Optional.empty())),
            new CreateTopicsOptions().validateOnly(true))));
        calls.put("listTopics", () -> admin.listTopics().names());
        calls.put("describeTopics", () -> admin.describeTopics(List.of("j1", "nosuch"),
            new DescribeTopicsOptions().includeAuthorizedOperations(true)).topicNameValues());
        calls.put("describeTopics by id", () -> {
            Uuid id = admin.describeTopics(List.of("j1")).topicNameValues().get("j1").get().topicId();
            return admin.describeTopics(TopicCollection.ofTopicIds(List.of(id, NOWHERE))).topicIdValues();
        });
    }

    private static void create(String name, NewTopic... topics) {
        calls.put(name, () -> admin.createTopics(Arrays.asList(topics)).values());
    }

    /** What the answer says of the topics: their ids aside, with all configs. */
    private static Object made(CreateTopicsResult result) {
        Map<String, Object> found = new LinkedHashMap<>();
        for (String name : result.values().keySet()) {
            found.put(name + " partitions", result.numPartitions(name));
            found.put(name + " replicas", result.replicationFactor(name));
            found.put(name + " config", result.config(name));
        }
        return found;
    }

    private static Map<Integer, List<Integer>> assignment() {
        Map<Integer, List<Integer>> found = new HashMap<>();
        found.put(0, List.of(0, 1, 2));
        found.put(1, List.of(1, 2, 0));
        return found;
    }

    private static void partitions() {
        more("createPartitions 3", "j1", NewPartitions.increaseTo(3, List.of(List.of(2, 0, 1))));
        more("createPartitions 2", "j1", NewPartitions.increaseTo(2));
        more("createPartitions 3 again", "j1", NewPartitions.increaseTo(3));
        more("createPartitions two given", "j1", NewPartitions.increaseTo(4, List.of(List.of(0), List.of(1))));
        more("createPartitions unknown broker", "j1", NewPartitions.increaseTo(4, List.of(List.of(0, 1, 9))));
        more("createPartitions nosuch", "nosuch", NewPartitions.increaseTo(2));
    }

    private static void more(String name, String topic, NewPartitions wanted) {
        calls.put(name, () -> admin.createPartitions(Map.of(topic, wanted)).values());
    }

    private static void configs() {
        ConfigResource topic = resource(ConfigResource.Type.TOPIC, "j1");
        ConfigResource none = resource(ConfigResource.Type.TOPIC, "nosuch");
        ConfigResource broker = resource(ConfigResource.Type.BROKER, "1");
        ConfigResource all = resource(ConfigResource.Type.BROKER, "");
        ConfigResource logger = resource(ConfigResource.Type.BROKER_LOGGER, "0");
        AlterConfigOp.OpType set = AlterConfigOp.OpType.SET;
        AlterConfigOp.OpType delete = AlterConfigOp.OpType.DELETE;
        alter("incrementalAlterConfigs", topic, op("retention.ms", "4000", set));
        alter("incrementalAlterConfigs append", topic,
            op("cleanup.policy", "compact", AlterConfigOp.OpType.APPEND));
        alter("incrementalAlterConfigs a key twice", topic,
            op("retention.ms", "1", set), op("retention.ms", null, delete));
        alter("incrementalAlterConfigs append to a number", topic,
            op("retention.ms", "1", AlterConfigOp.OpType.APPEND));
        alter("incrementalAlterConfigs bad value", topic, op("retention.ms", "soon", set));
        alter("incrementalAlterConfigs unknown", topic, op("no.such", "1", set));
        alter("incrementalAlterConfigs nosuch", none, op("retention.ms", "1", set));
        alter("incrementalAlterConfigs all brokers", all, op("message.max.bytes", "2000000", set));
        alter("incrementalAlterConfigs all brokers, only one's", all, op("listeners", "A://h:1", set));
        alter("incrementalAlterConfigs broker", broker, op("log.cleaner.threads", "2", set));
        alter("incrementalAlterConfigs broker, read-only", broker, op("node.id", "7", set));
        alter("incrementalAlterConfigs broker, bad value", broker, op("log.cleaner.threads", "none", set));
        alter("incrementalAlterConfigs logger", logger, op("nosuch.logger", "DEBUG", set));
        alter("incrementalAlterConfigs client metrics",
            resource(ConfigResource.Type.CLIENT_METRICS, "m2"), op("metrics", "org.apache.", set));
        alter("incrementalAlterConfigs client metrics, unknown",
            resource(ConfigResource.Type.CLIENT_METRICS, "m2"), op("colour", "red", set));
        var options = new DescribeConfigsOptions().includeSynonyms(true);
        calls.put("describeConfigs topics", () -> admin.describeConfigs(List.of(topic, none), options).values());
        calls.put("describeConfigs all brokers", () -> admin.describeConfigs(List.of(all), options).values());
        calls.put("describeConfigs broker", () -> admin.describeConfigs(List.of(broker), options).values());
        calls.put("describeConfigs with documentation", () -> admin.describeConfigs(
            List.of(topic), new DescribeConfigsOptions().includeDocumentation(true)).values());
        alter("incrementalAlterConfigs subtract", topic,
            op("cleanup.policy", "compact", AlterConfigOp.OpType.SUBTRACT), op("retention.ms", null, delete));
        calls.put("describeConfigs after", () -> admin.describeConfigs(List.of(topic)).values());
        alter("incrementalAlterConfigs all brokers, delete", all, op("message.max.bytes", null, delete));
        alter("incrementalAlterConfigs broker, delete", broker, op("log.cleaner.threads", null, delete));
        alter("incrementalAlterConfigs client metrics, delete",
            resource(ConfigResource.Type.CLIENT_METRICS, "m2"), op("metrics", null, delete));
    }

    private static ConfigResource resource(ConfigResource.Type kind, String name) {
        return new ConfigResource(kind, name);
    }

    private static AlterConfigOp op(String name, String value, AlterConfigOp.OpType kind) {
        return new AlterConfigOp(new ConfigEntry(name, value), kind);
    }

    private static void alter(String name, ConfigResource resource, AlterConfigOp... wanted) {
        Collection<AlterConfigOp> list = Arrays.asList(wanted);
        calls.put(name, () -> admin.incrementalAlterConfigs(Map.of(resource, list)).values());
        if (name.equals("incrementalAlterConfigs")) {
            calls.put(name + " validate", () -> admin.incrementalAlterConfigs(
                Map.of(resource, list), new AlterConfigsOptions().validateOnly(true)).values());
        }
    }

    private static void quotas() {
        ClientQuotaEntity user = new ClientQuotaEntity(Map.of("user", "j", "client-id", "c"));
        ClientQuotaEntity ip = new ClientQuotaEntity(Map.of("ip", "10.0.0.1"));
        quota("alterClientQuotas", user, "producer_byte_rate", 1024.0);
        quota("alterClientQuotas unknown", user, "no_such", 1.0);
        quota("alterClientQuotas negative", user, "producer_byte_rate", -1.0);
        quota("alterClientQuotas half", user, "producer_byte_rate", 0.5);
        quota("alterClientQuotas ip", ip, "connection_creation_rate", 5.0);
        quota("alterClientQuotas of an ip for users", ip, "producer_byte_rate", 5.0);
        quota("alterClientQuotas unknown entity", new ClientQuotaEntity(Map.of("colour", "red")), "producer_byte_rate", 1.0);
        calls.put("describeClientQuotas", () -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities());
        calls.put("describeClientQuotas of the user only", () -> admin.describeClientQuotas(
            ClientQuotaFilter.containsOnly(List.of(ClientQuotaFilterComponent.ofEntity("user", "j")))).entities());
        calls.put("describeClientQuotas unknown entity", () -> admin.describeClientQuotas(
            ClientQuotaFilter.contains(List.of(ClientQuotaFilterComponent.ofEntity("colour", "red")))).entities());
        quota("alterClientQuotas remove", user, "producer_byte_rate", null);
        quota("alterClientQuotas remove ip", ip, "connection_creation_rate", null);
    }

    private static void quota(String name, ClientQuotaEntity entity, String key, Double value) {
        var op = new ClientQuotaAlteration.Op(key, value);
        calls.put(name, () -> admin.alterClientQuotas(
            List.of(new ClientQuotaAlteration(entity, List.of(op)))).values());
    }

    private static void users() {
        var sha256 = ScramMechanism.SCRAM_SHA_256;
        byte[] salt = {1, 2, 3};
        scram("alterUserScramCredentials",
            new UserScramCredentialUpsertion("j", new ScramCredentialInfo(sha256, 4096), new byte[] {7}, salt));
        scram("alterUserScramCredentials few iterations",
            new UserScramCredentialUpsertion("j", new ScramCredentialInfo(sha256, 1), new byte[] {7}, salt));
        scram("alterUserScramCredentials no user",
            new UserScramCredentialUpsertion("", new ScramCredentialInfo(sha256, 4096), new byte[] {7}, salt));
        calls.put("describeUserScramCredentials", () -> admin.describeUserScramCredentials().all());
        calls.put("describeUserScramCredentials nobody",
            () -> admin.describeUserScramCredentials(List.of("nobody")).description("nobody"));
        scram("alterUserScramCredentials delete", new UserScramCredentialDeletion("j", sha256));
        scram("alterUserScramCredentials delete again", new UserScramCredentialDeletion("j", sha256));
    }

    private static void scram(String name, UserScramCredentialAlteration wanted) {
        calls.put(name, () -> admin.alterUserScramCredentials(List.of(wanted)).values());
    }

    private static void acls() {
        AclBinding one = acl(ResourceType.TOPIC, "j", PatternType.PREFIXED, "User:j", AclOperation.READ, AclPermissionType.ALLOW);
        AclBinding two = acl(ResourceType.GROUP, "*", PatternType.LITERAL, "User:j", AclOperation.DESCRIBE, AclPermissionType.DENY);
        calls.put("createAcls", () -> admin.createAcls(List.of(one, two)).values());
        calls.put("createAcls cluster by another name", () -> admin.createAcls(List.of(acl(ResourceType.CLUSTER,
            "elsewhere", PatternType.LITERAL, "User:j", AclOperation.READ, AclPermissionType.ALLOW))).values());
        calls.put("describeAcls", () -> admin.describeAcls(AclBindingFilter.ANY).values());
        calls.put("describeAcls that match", () -> admin.describeAcls(new AclBindingFilter(
            new ResourcePatternFilter(ResourceType.TOPIC, "j1", PatternType.MATCH), AccessControlEntryFilter.ANY)).values());
        calls.put("deleteAcls", () -> admin.deleteAcls(List.of(of("User:j"))).all());
        calls.put("deleteAcls again", () -> admin.deleteAcls(List.of(of("User:j"))).all());
    }

    private static AclBinding acl(ResourceType kind, String name, PatternType pattern, String who,
                                  AclOperation what, AclPermissionType permission) {
        return new AclBinding(new ResourcePattern(kind, name, pattern),
            new AccessControlEntry(who, "*", what, permission));
    }

    private static AclBindingFilter of(String principal) {
        return new AclBindingFilter(ResourcePatternFilter.ANY,
            new AccessControlEntryFilter(principal, null, AclOperation.ANY, AclPermissionType.ANY));
    }

    private static void moves() {
        TopicPartition first = new TopicPartition("j1", 0);
        TopicPartition none = new TopicPartition("nosuch", 0);
        move("alterPartitionReassignments nosuch", none, 0, 1);
        move("alterPartitionReassignments unknown broker", first, 0, 9);
        move("alterPartitionReassignments twice the same", first, 0, 0);
        calls.put("alterPartitionReassignments end none",
            () -> admin.alterPartitionReassignments(Map.of(first, Optional.empty())).values());
        move("alterPartitionReassignments order", first, 2, 1, 0);
        calls.put("listPartitionReassignments", () -> admin.listPartitionReassignments().reassignments());
        elect("electLeaders", ElectionType.PREFERRED, Set.of(first, none));
        elect("electLeaders again", ElectionType.PREFERRED, Set.of(first));
        elect("electLeaders unclean", ElectionType.UNCLEAN, Set.of(first));
        elect("electLeaders all", ElectionType.PREFERRED, null);
        move("alterPartitionReassignments fewer", first, 2, 1);
        calls.put("describeTopics moved", () -> admin.describeTopics(List.of("j1")).topicNameValues());
        move("alterPartitionReassignments more", first, 2, 1, 0);
        calls.put("describeTopics moved back", () -> admin.describeTopics(List.of("j1")).topicNameValues());
    }

    private static void move(String name, TopicPartition partition, Integer... replicas) {
        var wanted = Optional.of(new NewPartitionReassignment(Arrays.asList(replicas)));
        calls.put(name, () -> admin.alterPartitionReassignments(Map.of(partition, wanted)).values());
    }

    private static void elect(String name, ElectionType kind, Set<TopicPartition> partitions) {
        calls.put(name, () -> admin.electLeaders(kind, partitions).partitions());
    }

    private static void groups() {
        calls.put("listOffsets", () -> admin.listOffsets(
            Map.of(new TopicPartition("j1", 0), OffsetSpec.latest())).all());
        calls.put("listOffsets nosuch", () -> admin.listOffsets(
            Map.of(new TopicPartition("nosuch", 0), OffsetSpec.latest())).all());
        TopicPartition first = new TopicPartition("j1", 0);
        // The result does not print itself.
        calls.put("deleteRecords", () -> admin.deleteRecords(
            Map.of(first, RecordsToDelete.beforeOffset(0))).lowWatermarks().get(first).get().lowWatermark());
        calls.put("describeProducers", () -> admin.describeProducers(
            List.of(new TopicPartition("j1", 0))).all());
        calls.put("describeReplicaLogDirs", () -> admin.describeReplicaLogDirs(
            List.of(new TopicPartitionReplica("j1", 0, 0), new TopicPartitionReplica("nosuch", 0, 0))).values());
        calls.put("listTransactions", () -> admin.listTransactions().all());
        calls.put("describeConsumerGroups nosuch",
            () -> admin.describeConsumerGroups(List.of("nosuch")).describedGroups());
        calls.put("listConsumerGroups", () -> admin.listConsumerGroups().all());
    }

    private static void denied() {
        AclPermissionType deny = AclPermissionType.DENY;
        calls.put("createAcls that deny j1", () -> admin.createAcls(List.of(
            acl(ResourceType.TOPIC, "j1", PatternType.LITERAL, ME, AclOperation.ALL, deny),
            acl(ResourceType.TOPIC, "hidden", PatternType.PREFIXED, ME, AclOperation.ALL, deny),
            acl(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, ME, AclOperation.CREATE, deny),
            acl(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, ME, AclOperation.DELETE, deny),
            acl(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, ME, AclOperation.ALTER_CONFIGS, deny),
            acl(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, ME, AclOperation.DESCRIBE_CONFIGS, deny))).values());
        TopicPartition first = new TopicPartition("j1", 0);
        calls.put("listTopics, denied", () -> admin.listTopics().names());
        calls.put("describeCluster, denied", () -> admin.describeCluster(
            new DescribeClusterOptions().includeAuthorizedOperations(true)).authorizedOperations());
        calls.put("describeTopics, denied", () -> admin.describeTopics(List.of("j1")).topicNameValues());
        create("createTopics, denied", new NewTopic("hidden", 1, (short) 1));
        more("createPartitions, denied", "j1", NewPartitions.increaseTo(9));
        alter("incrementalAlterConfigs topic, denied", resource(ConfigResource.Type.TOPIC, "j1"),
            op("retention.ms", "1", AlterConfigOp.OpType.SET));
        alter("incrementalAlterConfigs broker, denied", resource(ConfigResource.Type.BROKER, "1"),
            op("log.cleaner.threads", "2", AlterConfigOp.OpType.SET));
        calls.put("describeConfigs, denied", () -> admin.describeConfigs(List.of(
            resource(ConfigResource.Type.TOPIC, "j1"), resource(ConfigResource.Type.BROKER, ""))).values());
        quota("alterClientQuotas, denied", new ClientQuotaEntity(Map.of("user", "j")), "producer_byte_rate", 1.0);
        calls.put("describeClientQuotas, denied", () -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities());
        elect("electLeaders, denied by none", ElectionType.PREFERRED, Set.of(first));
        move("alterPartitionReassignments, denied by none", first, 2, 1, 0);
        calls.put("deleteTopics, denied", () -> admin.deleteTopics(List.of("j1")).topicNameValues());
        calls.put("deleteAcls that deny", () -> admin.deleteAcls(List.of(of(ME))).all());
    }

    private static void end() {
        calls.put("deleteTopics", () -> admin.deleteTopics(List.of("j1", "nosuch")).topicNameValues());
        calls.put("deleteTopics by id", () -> {
            Uuid id = admin.describeTopics(List.of("j2")).topicNameValues().get("j2").get().topicId();
            return admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id, NOWHERE))).topicIdValues();
        });
        calls.put("listTopics after", () -> admin.listTopics().names());
    }
}
