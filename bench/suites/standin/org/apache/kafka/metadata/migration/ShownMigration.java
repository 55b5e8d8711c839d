package org.apache.kafka.metadata.migration;

import java.util.concurrent.CompletableFuture;
import kraftbridge.ControllerProcess;
import kraftbridge.Unmade;

/** The state of a process's migration, as the only thing that tests ask of the driver. */
public final class ShownMigration extends KRaftMigrationDriver {
    private ControllerProcess process;

    private ShownMigration() {
        super(0, null, null, null, null, null, null, null, null, 0, null);
    }

    /** Of this process. */
    public static ShownMigration of(ControllerProcess process) {
        ShownMigration made = Unmade.instance(ShownMigration.class);
        made.process = process;
        return made;
    }

    @Override
    public CompletableFuture<MigrationDriverState> migrationState() {
        String state = process.status().at("/migration/driver_state").asText("UNINITIALIZED");
        return CompletableFuture.completedFuture(MigrationDriverState.valueOf(state));
    }
}
