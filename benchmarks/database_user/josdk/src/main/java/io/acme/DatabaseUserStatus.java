package io.acme;

import io.fabric8.kubernetes.api.model.Condition;
import java.util.List;

public class DatabaseUserStatus {

  public Long observedGeneration;
  public List<Condition> conditions = List.of();
}
