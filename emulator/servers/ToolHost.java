import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;

import org.apache.kafka.common.utils.Exit;

/**
 * Runs main classes one after the other: a frame in is a count and that many strings (the class,
 * then its arguments), a frame out is the exit code, standard output and standard error. All
 * strings are a four-byte length and UTF-8. Ends with its input.
 */
public final class ToolHost {

    /** What replaces the end of the process. */
    private static final class Ended extends Error {
        private static final long serialVersionUID = 1L;
        final int code;

        Ended(int code) {
            super("exit " + code, null, false, false);
            this.code = code;
        }
    }

    /** Scala's Console keeps the stream it finds first: so the stream stays, its target changes. */
    private static final class Switch extends OutputStream {
        private ByteArrayOutputStream target = new ByteArrayOutputStream();

        @Override
        public synchronized void write(int one) {
            target.write(one);
        }

        @Override
        public synchronized void write(byte[] many, int from, int count) {
            target.write(many, from, count);
        }

        synchronized byte[] take() {
            byte[] all = target.toByteArray();
            target = new ByteArrayOutputStream();
            return all;
        }
    }

    private static volatile Integer firstCode;

    public static void main(String[] arguments) throws Exception {
        DataInputStream in = new DataInputStream(System.in);
        DataOutputStream out = new DataOutputStream(System.out);
        Switch stdout = new Switch();
        Switch stderr = new Switch();
        System.setOut(new PrintStream(stdout, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(stderr, true, StandardCharsets.UTF_8));
        Exit.Procedure procedure = (code, message) -> {
            if (firstCode == null) firstCode = code;
            throw new Ended(code);
        };
        Exit.setExitProcedure(procedure);
        Exit.setHaltProcedure(procedure);
        while (true) {
            int count;
            try {
                count = in.readInt();
            } catch (EOFException end) {
                // A client that a main class has left open may have a thread that keeps Java alive.
                Runtime.getRuntime().halt(0);
                return;
            }
            String[] words = new String[count];
            for (int i = 0; i < count; i++) words[i] = text(in);
            int code = run(words);
            System.out.flush();
            System.err.flush();
            out.writeInt(code);
            for (Switch each : new Switch[] {stdout, stderr}) {
                byte[] printed = each.take();
                out.writeInt(printed.length);
                out.write(printed);
            }
            out.flush();
        }
    }

    private static String text(DataInputStream in) throws Exception {
        byte[] bytes = new byte[in.readInt()];
        in.readFully(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private static int run(String[] words) throws Exception {
        firstCode = null;
        String[] rest = new String[words.length - 1];
        System.arraycopy(words, 1, rest, 0, rest.length);
        try {
            Class.forName(words[0]).getMethod("main", String[].class).invoke(null, (Object) rest);
        } catch (InvocationTargetException thrown) {
            if (firstCode == null) {
                thrown.getCause().printStackTrace();
                return 1;
            }
        }
        return firstCode == null ? 0 : firstCode;
    }
}
