import java.io.BufferedReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;

class LeaderMoves {
    static String line;

    static String member(String name) {
        var found = Pattern.compile("\"" + name + "\": \"([^\"]*)\"").matcher(line);
        if (!found.find()) throw new IllegalStateException(line);
        return found.group(1);
    }

    static void control(String path, String body) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(member("control") + path))
            .header("Authorization", "Bearer " + member("token"))
            .POST(HttpRequest.BodyPublishers.ofString(body)).build();
        var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200) throw new IllegalStateException(answer.body());
    }

    public static void main(String[] words) throws Exception {
        Process cluster = new ProcessBuilder("kraft-bridge", "cluster", "--brokers", "3", "--controllers", "3")
            .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        try (BufferedReader output = cluster.inputReader()) {
            line = output.readLine();
            try (Admin admin = Admin.create(Map.of("bootstrap.servers", member("bootstrap")))) {
                admin.createTopics(List.of(new NewTopic("orders", 1, (short) 3))).all().get();
                control("/move-leader", "{\"topic\": \"orders\", \"partition\": 0, \"node\": 2}");
                var topics = admin.describeTopics(List.of("orders")).allTopicNames().get();
                System.out.println("leader " + topics.get("orders").partitions().get(0).leader().id());
            }
        } finally {
            cluster.destroy();
            cluster.waitFor();
        }
    }
}
