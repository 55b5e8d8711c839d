import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.resource.Resource;
import org.apache.kafka.common.resource.ResourceFilter;
import org.apache.kafka.common.resource.ResourceType;

/** Every call of the first AdminClient, that of Kafka 0.11.0.0. Arguments: HOST:PORT [CALL]. */
public final class FirstCalls {

    private static String connectedTo;
    private static AdminClient admin;
    private static Map<String, Shown.Call> calls;

    private FirstCalls() { }

    public static void main(String[] words) {
        if (!words[0].equals(connectedTo)) connect(words[0]);
        System.out.print(words.length == 1 ? String.join("\n", calls.keySet()) : Shown.of(calls.get(words[1])));
    }

    private static void connect(String bootstrap) {
        if (admin != null) admin.close();
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("request.timeout.ms", "15000");
        admin = AdminClient.create(properties);
        connectedTo = bootstrap;
        calls = new LinkedHashMap<>();
        topics();
        configs();
        acls();
        calls.put("deleteTopics", () -> admin.deleteTopics(List.of("f1", "nosuch")).values());
        calls.put("listTopics after", () -> admin.listTopics().names());
    }

    private static void topics() {
        calls.put("describeCluster", () -> {
            var found = admin.describeCluster();
            Map<String, Object> parts = new LinkedHashMap<>();
            parts.put("nodes", found.nodes());
            parts.put("clusterId", found.clusterId());
            return parts;
        });
        calls.put("listTopics", () -> admin.listTopics().names());
        create("createTopics f1", new NewTopic("f1", assignment()).configs(Map.of("retention.ms", "9999")));
        create("createTopics f1 again", new NewTopic("f1", assignment()));
        create("createTopics RF 9", new NewTopic("f9", 1, (short) 9));
        create("createTopics no partitions", new NewTopic("f9", 0, (short) 1));
        create("createTopics bad name", new NewTopic("f/9", 1, (short) 1));
        create("createTopics unknown broker", new NewTopic("f9", Map.of(0, List.of(0, 7))));
        create("createTopics bad config",
            new NewTopic("f9", 1, (short) 1).configs(Map.of("retention.ms", "soon")));
        calls.put("createTopics validate", () -> admin.createTopics(
            List.of(new NewTopic("fv", 2, (short) 3)), new CreateTopicsOptions().validateOnly(true)).values());
        calls.put("describeTopics", () -> admin.describeTopics(List.of("f1", "nosuch")).values());
    }

    private static void create(String name, NewTopic topic) {
        calls.put(name, () -> admin.createTopics(List.of(topic)).values());
    }

    private static Map<Integer, List<Integer>> assignment() {
        Map<Integer, List<Integer>> found = new HashMap<>();
        found.put(0, Arrays.asList(0, 1, 2));
        found.put(1, Arrays.asList(1, 2, 0));
        return found;
    }

    private static void configs() {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, "f1");
        ConfigResource none = new ConfigResource(ConfigResource.Type.TOPIC, "nosuch");
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        calls.put("alterConfigs", () -> admin.alterConfigs(Map.of(topic, one("retention.ms", "4000"))).values());
        calls.put("alterConfigs bad value", () -> admin.alterConfigs(Map.of(topic, one("retention.ms", "soon"))).values());
        calls.put("alterConfigs unknown", () -> admin.alterConfigs(Map.of(topic, one("no.such", "1"))).values());
        calls.put("alterConfigs nosuch", () -> admin.alterConfigs(Map.of(none, one("retention.ms", "1"))).values());
        calls.put("describeConfigs", () -> admin.describeConfigs(List.of(topic, none)).values());
        calls.put("describeConfigs broker", () -> admin.describeConfigs(List.of(broker)).values());
    }

    private static Config one(String name, String value) {
        return new Config(List.of(new ConfigEntry(name, value)));
    }

    private static void acls() {
        AclBinding acl = new AclBinding(new Resource(ResourceType.TOPIC, "f1"),
            new AccessControlEntry("User:f", "*", AclOperation.READ, AclPermissionType.ALLOW));
        AclBindingFilter filter = new AclBindingFilter(new ResourceFilter(ResourceType.ANY, null),
            new AccessControlEntryFilter("User:f", null, AclOperation.ANY, AclPermissionType.ANY));
        Collection<AclBinding> wanted = List.of(acl);
        calls.put("createAcls", () -> admin.createAcls(wanted).values());
        calls.put("describeAcls", () -> admin.describeAcls(filter).values());
        calls.put("deleteAcls", () -> admin.deleteAcls(List.of(filter)).all());
    }
}
