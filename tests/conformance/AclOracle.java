import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import kafka.zk.DelegationTokenInfoZNode;
import kafka.zk.ExtendedAclChangeStore;
import kafka.zk.LiteralAclChangeStore;
import kafka.zk.ResourceZNode;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.token.delegation.TokenInformation;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.security.authorizer.AclEntry;
import org.apache.zookeeper.data.Stat;
import scala.jdk.javaapi.CollectionConverters;
import scala.jdk.javaapi.OptionConverters;

/**
 * Asks Kafka's own classes about znodes of ACLs and delegation tokens.
 *
 * Standard input: one question a line, words separated by blanks, texts in base64 ("=" for none). Standard output:
 * one line for each, words separated by blanks, texts in base64, or "! why".
 */
public final class AclOracle {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = answer(line.split(" ", -1));
            } catch (Exception error) {
                answer = "! " + error;
            }
            out.println(answer.replace('\n', ' '));
        }
        out.flush();
    }

    private static String answer(String[] word) throws Exception {
        switch (word[0]) {
            case "entries-of":
                List<String> found = new ArrayList<>();
                for (AclEntry entry : CollectionConverters.asJava(ResourceZNode.decode(bytes(word[1]), new Stat()).acls()))
                    found.add(String.join(" ", coded(entry.principal()), coded(entry.host()),
                        "" + entry.operation().code(), "" + entry.permissionType().code()));
                Collections.sort(found);
                return String.join(" ", found);
            case "data-of":
                Set<AclEntry> entries = new HashSet<>();
                for (int at = 1; at < word.length; at += 4)
                    entries.add(new AclEntry(new AccessControlEntry(text(word[at]), text(word[at + 1]),
                        AclOperation.fromCode(Byte.parseByte(word[at + 2])),
                        AclPermissionType.fromCode(Byte.parseByte(word[at + 3])))));
                scala.collection.mutable.Builder<AclEntry, scala.collection.immutable.Set<AclEntry>> built =
                    scala.collection.immutable.Set$.MODULE$.newBuilder();
                entries.forEach(built::addOne);
                return coded(ResourceZNode.encode(built.result()));
            case "path-of":
                return coded(ResourceZNode.path(resource(word)));
            case "notified":
                ResourcePattern told = text(word[1]).startsWith("{")
                    ? ExtendedAclChangeStore.decode(bytes(word[1]))
                    : LiteralAclChangeStore.decode(bytes(word[1]));
                return told.resourceType().code() + " " + told.patternType().code() + " " + coded(told.name());
            case "notification":
                ResourcePattern tell = resource(word);
                return coded(tell.patternType() == PatternType.LITERAL
                    ? LiteralAclChangeStore.encode(tell)
                    : ExtendedAclChangeStore.encode(tell));
            case "token-of":
                TokenInformation token =
                    OptionConverters.toJava(DelegationTokenInfoZNode.decode(bytes(word[1]))).orElseThrow();
                return String.join(" ", coded(token.tokenId()), coded(token.ownerAsString()),
                    coded(token.tokenRequester().toString()), coded(String.join("\n", token.renewersAsString())),
                    "" + token.issueTimestamp(), "" + token.maxTimestamp(), "" + token.expiryTimestamp());
            case "token-data":
                List<KafkaPrincipal> renewers = new ArrayList<>();
                for (String one : text(word[4]).split("\n"))
                    if (!one.isEmpty())
                        renewers.add(SecurityUtils.parseKafkaPrincipal(one));
                return coded(DelegationTokenInfoZNode.encode(new TokenInformation(text(word[1]),
                    SecurityUtils.parseKafkaPrincipal(text(word[2])), SecurityUtils.parseKafkaPrincipal(text(word[3])),
                    renewers, Long.parseLong(word[5]), Long.parseLong(word[6]), Long.parseLong(word[7]))));
            default:
                return "! unknown question";
        }
    }

    private static ResourcePattern resource(String[] word) {
        return new ResourcePattern(ResourceType.fromCode(Byte.parseByte(word[1])), text(word[3]),
            PatternType.fromCode(Byte.parseByte(word[2])));
    }

    private static byte[] bytes(String word) {
        return word.equals("=") ? new byte[0] : Base64.getDecoder().decode(word);
    }

    private static String text(String word) {
        return new String(bytes(word), StandardCharsets.UTF_8);
    }

    private static String coded(String text) {
        return coded(text.getBytes(StandardCharsets.UTF_8));
    }

    private static String coded(byte[] data) {
        return data.length == 0 ? "=" : Base64.getEncoder().encodeToString(data);
    }
}
