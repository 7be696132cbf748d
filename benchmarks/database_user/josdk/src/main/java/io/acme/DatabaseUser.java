package io.acme;

import io.fabric8.kubernetes.api.model.Namespaced;
import io.fabric8.kubernetes.client.CustomResource;
import io.fabric8.kubernetes.model.annotation.Group;
import io.fabric8.kubernetes.model.annotation.Version;

@Group("acme.io")
@Version("v1")
public class DatabaseUser extends CustomResource<DatabaseUserSpec, DatabaseUserStatus>
    implements Namespaced {

  public String id() {
    return getMetadata().getNamespace() + "." + getMetadata().getName();
  }
}
