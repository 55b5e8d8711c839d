import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;

/**
 * Says what Kafka's own StandardAuthorizer decides. Lines of fields between tabs: "new" with super
 * users and whether everyone is allowed where no ACL is; "acl" with the numbers and names of an
 * entry; "ask" with principal, address, operation, resource type and name, answered by ALLOWED or
 * DENIED; "find" with a filter ("-" for null), answered by the entries that match.
 */
public final class AuthorizerOracle {
    private record Caller(KafkaPrincipal principal, InetAddress clientAddress)
            implements AuthorizableRequestContext {
        public String listenerName() {
            return "CONTROLLER";
        }

        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        public int requestType() {
            return 20;
        }

        public int requestVersion() {
            return 6;
        }

        public String clientId() {
            return "";
        }

        public int correlationId() {
            return 1;
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.setOut(new java.io.PrintStream(System.out, false, StandardCharsets.UTF_8));
        StandardAuthorizer authorizer = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "new" -> {
                    authorizer = new StandardAuthorizer();
                    authorizer.configure(Map.of(
                        StandardAuthorizer.SUPER_USERS_CONFIG, words[1],
                        StandardAuthorizer.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG, words[2]));
                    authorizer.completeInitialLoad();
                }
                case "acl" -> authorizer.addAcl(Uuid.randomUuid(), new StandardAcl(
                    ResourceType.fromCode(number(words[1])), words[3],
                    PatternType.fromCode(number(words[2])), words[4], words[5],
                    AclOperation.fromCode(number(words[6])),
                    AclPermissionType.fromCode(number(words[7]))));
                case "ask" -> {
                    Caller caller = new Caller(
                        SecurityUtils.parseKafkaPrincipal(words[1]),
                        InetAddress.getByAddress(HexFormat.of().parseHex(words[2])));
                    Action action = new Action(
                        AclOperation.fromCode(number(words[3])),
                        new ResourcePattern(
                            ResourceType.fromCode(number(words[4])), words[5],
                            PatternType.LITERAL),
                        1, true, false);
                    System.out.println(authorizer.authorize(caller, List.of(action)).get(0));
                }
                default -> System.out.println(find(authorizer, words));
            }
        }
        System.out.flush();
    }

    private static String find(StandardAuthorizer authorizer, String[] words) {
        AclBindingFilter filter = new AclBindingFilter(
            new ResourcePatternFilter(
                ResourceType.fromCode(number(words[1])), text(words[3]),
                PatternType.fromCode(number(words[2]))),
            new AccessControlEntryFilter(
                text(words[4]), text(words[5]), AclOperation.fromCode(number(words[6])),
                AclPermissionType.fromCode(number(words[7]))));
        List<String> found = new ArrayList<>();
        for (AclBinding one : authorizer.acls(filter)) {
            found.add(String.join(" ",
                "" + one.pattern().resourceType().code(), "" + one.pattern().patternType().code(),
                one.pattern().name(), one.entry().principal(), one.entry().host(),
                "" + one.entry().operation().code(), "" + one.entry().permissionType().code()));
        }
        Collections.sort(found);
        return String.join(";", found);
    }

    private static String text(String word) {
        return word.equals("-") ? null : word;
    }

    private static byte number(String word) {
        return Byte.parseByte(word);
    }
}
