package kraftbridge;

import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.Key;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.network.ListenerName;

/**
 * A controller's properties as one file can hold them. Kafka's tests keep logins in a JAAS file of the
 * JVM, and certificates in JKS; kraft-bridge reads properties and PKCS12.
 */
final class OwnProperties {
    private static final Map<String, List<String>> MECHANISMS = Map.of(
        "PlainLoginModule", List.of("plain"),
        "ScramLoginModule", List.of("scram-sha-256", "scram-sha-512"),
        "Krb5LoginModule", List.of("gssapi"),
        "OAuthBearerLoginModule", List.of("oauthbearer"));

    private OwnProperties() {
    }

    /** Of this configuration; what has to be written is written beside {@code file}. */
    static Map<String, String> of(KafkaConfig config, Path file) throws Exception {
        Map<String, String> found = new TreeMap<>();
        config.originals().forEach((key, value) -> {
            if (value != null) {
                found.put(key, text(value));
            }
        });
        addLogins(config, found);
        addZooKeeperLogin(found);
        int stores = 0;
        for (String key : List.copyOf(found.keySet())) {
            if (key.endsWith("store.location")) {
                Path converted = file.resolveSibling(file.getFileName() + "." + ++stores + ".p12");
                convert(found, key.substring(0, key.length() - "location".length()), converted);
            }
        }
        return found;
    }

    private static String text(Object value) {
        if (value instanceof Password password) {
            return password.value();
        }
        if (value instanceof Class<?> type) {
            return type.getName();
        }
        if (value instanceof List<?> list) {
            return list.stream().map(String::valueOf).collect(Collectors.joining(","));
        }
        return String.valueOf(value);
    }

    private static void addLogins(KafkaConfig config, Map<String, String> found) {
        String name = config.controllerListenerNames().iterator().next().toLowerCase(Locale.ROOT);
        for (AppConfigurationEntry entry : section(name + ".KafkaServer", "KafkaServer")) {
            String module = entry.getLoginModuleName();
            List<String> all = MECHANISMS.getOrDefault(module.substring(module.lastIndexOf('.') + 1), List.of());
            for (String mechanism : all) {
                String prefix = new ListenerName(name).configPrefix() + mechanism + ".";
                found.putIfAbsent(prefix + "sasl.jaas.config", line(entry));
            }
        }
    }

    private static void addZooKeeperLogin(Map<String, String> found) {
        AppConfigurationEntry[] client = section("Client");
        if (client.length > 0 && found.containsKey("zookeeper.connect")) {
            found.put("kraftbridge.zookeeper.jaas.config", "Client { " + line(client[0]) + " };");
        }
    }

    /** The first of these sections of the JVM's JAAS file that there is. */
    private static AppConfigurationEntry[] section(String... names) {
        if (System.getProperty("java.security.auth.login.config") == null) {
            return new AppConfigurationEntry[0];
        }
        for (String name : names) {
            AppConfigurationEntry[] found = Configuration.getConfiguration().getAppConfigurationEntry(name);
            if (found != null) {
                return found;
            }
        }
        return new AppConfigurationEntry[0];
    }

    private static String line(AppConfigurationEntry entry) {
        Map<String, Object> options = new LinkedHashMap<>(entry.getOptions());
        return entry.getLoginModuleName() + " required" + options.entrySet().stream()
            .map(one -> " " + one.getKey() + "=\"" + one.getValue() + "\"")
            .collect(Collectors.joining()) + ";";
    }

    /** A copy of a JKS store as PKCS12, where all keys have the password of the store. */
    private static void convert(Map<String, String> found, String prefix, Path to) throws Exception {
        String type = found.getOrDefault(prefix + "type", "JKS");
        if (!type.equals("JKS")) {
            return;
        }
        String password = found.getOrDefault(prefix + "password", "");
        String keyName = prefix.substring(0, prefix.lastIndexOf("ssl.")) + "ssl.key.password";
        char[] keyPassword = found.getOrDefault(keyName, password).toCharArray();
        KeyStore old = KeyStore.getInstance(type);
        try (InputStream in = Files.newInputStream(Path.of(found.get(prefix + "location")))) {
            old.load(in, password.isEmpty() ? null : password.toCharArray());
        }
        KeyStore made = KeyStore.getInstance("PKCS12");
        made.load(null, null);
        for (String alias : Collections.list(old.aliases())) {
            if (old.isKeyEntry(alias)) {
                Key key = old.getKey(alias, keyPassword);
                made.setKeyEntry(alias, key, password.toCharArray(), old.getCertificateChain(alias));
                found.put(keyName, password);
            } else {
                Certificate certificate = old.getCertificate(alias);
                made.setCertificateEntry(alias, certificate);
            }
        }
        try (OutputStream out = Files.newOutputStream(to)) {
            made.store(out, password.toCharArray());
        }
        found.put(prefix + "location", to.toString());
        found.put(prefix + "type", "PKCS12");
    }
}
