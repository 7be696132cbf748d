package io.acme;

import io.javaoperatorsdk.operator.Operator;
import io.javaoperatorsdk.operator.api.config.LeaderElectionConfiguration;

public class DatabaseUserOperator {

  public static void main(String[] args) {
    var election = new LeaderElectionConfiguration(
        "database-users", "default", System.getenv("POD_NAME"));
    var operator = new Operator(options -> options.withLeaderElectionConfiguration(election));
    operator.register(new DatabaseUserReconciler(new Database(System.getenv("DATABASE_URL"))));
    operator.start();
  }
}
