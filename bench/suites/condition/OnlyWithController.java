package kraftbridge;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * Leaves out what starts no KRaft controller, what was run before, and, of the other controller, what
 * need not be compared. The file of {@code kraftbridge.skip} has one {@code id} a line.
 */
public final class OnlyWithController implements ExecutionCondition {
    private static final Pattern TEST = Pattern.compile("(method|test-template-invocation):[^\\]]*\\]$");
    private static final Set<String> SKIP = skipped();

    private static Set<String> skipped() {
        String file = System.getProperty("kraftbridge.skip");
        if (file == null) {
            return Set.of();
        }
        try {
            return Files.readAllLines(Path.of(file)).stream().collect(Collectors.toSet());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        Matcher one = TEST.matcher(context.getUniqueId());
        if (!one.find()) {
            return ConditionEvaluationResult.enabled("no test");
        }
        if (SKIP.contains(context.getUniqueId())) {
            return ConditionEvaluationResult.disabled("left out: run before");
        }
        String name = context.getDisplayName();
        if (name.contains("Type=Raft-Combined")) {
            return ConditionEvaluationResult.disabled("left out: combined mode");
        }
        boolean migrates = context.getRequiredTestClass().getSimpleName().startsWith("ZkMigration");
        if (name.contains("Type=ZK") && !migrates) {
            return ConditionEvaluationResult.disabled("left out: no KRaft controller");
        }
        if (harnessed(context.getRequiredTestClass()) && !name.contains("quorum=kraft")) {
            return ConditionEvaluationResult.disabled("left out: no KRaft controller");
        }
        return ConditionEvaluationResult.enabled("with a KRaft controller");
    }

    private static boolean harnessed(Class<?> type) {
        for (Class<?> one = type; one != null; one = one.getSuperclass()) {
            if (one.getName().equals("kafka.server.QuorumTestHarness")) {
                return true;
            }
        }
        return false;
    }
}
