package io.acme;

import io.fabric8.kubernetes.api.model.Condition;
import io.fabric8.kubernetes.api.model.ConditionBuilder;
import io.fabric8.kubernetes.api.model.ObjectMetaBuilder;
import io.fabric8.kubernetes.api.model.Secret;
import io.javaoperatorsdk.operator.api.reconciler.Cleaner;
import io.javaoperatorsdk.operator.api.reconciler.Context;
import io.javaoperatorsdk.operator.api.reconciler.ControllerConfiguration;
import io.javaoperatorsdk.operator.api.reconciler.DeleteControl;
import io.javaoperatorsdk.operator.api.reconciler.Reconciler;
import io.javaoperatorsdk.operator.api.reconciler.UpdateControl;
import io.javaoperatorsdk.operator.api.reconciler.Workflow;
import io.javaoperatorsdk.operator.api.reconciler.dependent.Dependent;
import io.javaoperatorsdk.operator.processing.retry.GradualRetry;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Optional;

/** Each DatabaseUser becomes a user of a database outside of the cluster, and a Secret. */
@Workflow(dependents = @Dependent(type = CredentialsSecret.class))
@ControllerConfiguration
@GradualRetry(maxAttempts = -1)
public class DatabaseUserReconciler implements Reconciler<DatabaseUser>, Cleaner<DatabaseUser> {

  private final Database database;

  public DatabaseUserReconciler(Database database) {
    this.database = database;
  }

  @Override
  public UpdateControl<DatabaseUser> reconcile(DatabaseUser user, Context<DatabaseUser> context)
      throws Exception {
    var secret = context.getSecondaryResource(Secret.class).orElseThrow();
    database.put(user.id(), CredentialsSecret.password(secret), user.getSpec().database);
    return UpdateControl.patchStatus(ready(user));
  }

  @Override
  public DeleteControl cleanup(DatabaseUser user, Context<DatabaseUser> context) throws Exception {
    database.drop(user.id());
    return DeleteControl.defaultDelete();
  }

  /** Return what is applied: an object with nothing but its identity and its status. */
  private static DatabaseUser ready(DatabaseUser user) {
    var found = new DatabaseUser();
    found.setMetadata(new ObjectMetaBuilder()
        .withName(user.getMetadata().getName())
        .withNamespace(user.getMetadata().getNamespace())
        .build());
    var status = new DatabaseUserStatus();
    status.observedGeneration = user.getMetadata().getGeneration();
    status.conditions = List.of(new ConditionBuilder()
        .withType("Ready")
        .withStatus("True")
        .withReason("UserCreated")
        .withObservedGeneration(user.getMetadata().getGeneration())
        .withLastTransitionTime(readySince(user))
        .build());
    found.setStatus(status);
    return found;
  }

  private static String readySince(DatabaseUser user) {
    return Optional.ofNullable(user.getStatus())
        .flatMap(status -> status.conditions.stream()
            .filter(one -> one.getType().equals("Ready"))
            .map(Condition::getLastTransitionTime)
            .findFirst())
        .orElseGet(() -> Instant.now().truncatedTo(ChronoUnit.SECONDS).toString());
  }
}
