package kraftbridge;

import java.lang.reflect.Field;
import sun.misc.Unsafe;

/** Objects without their constructor: subclasses of Kafka's classes that are asked one thing. */
public final class Unmade {
    private Unmade() {
    }

    /** An instance whose fields are null. */
    public static <T> T instance(Class<T> of) {
        try {
            Field field = Unsafe.class.getDeclaredField("theUnsafe");
            field.setAccessible(true);
            return of.cast(((Unsafe) field.get(null)).allocateInstance(of));
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }
}
