package io.acme;

import io.fabric8.kubernetes.api.model.Secret;
import io.fabric8.kubernetes.api.model.SecretBuilder;
import io.javaoperatorsdk.operator.api.reconciler.Context;
import io.javaoperatorsdk.operator.processing.dependent.kubernetes.CRUDKubernetesDependentResource;
import io.javaoperatorsdk.operator.processing.dependent.kubernetes.KubernetesDependent;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.Base64;

/** The Secret of a user. Its password stays as it is, or is a new one if there is none. */
@KubernetesDependent
public class CredentialsSecret extends CRUDKubernetesDependentResource<Secret, DatabaseUser> {

  private static final SecureRandom RANDOM = new SecureRandom();

  @Override
  protected Secret desired(DatabaseUser user, Context<DatabaseUser> context) {
    var password = context.getSecondaryResource(Secret.class)
        .map(CredentialsSecret::password)
        .filter(known -> !known.isEmpty())
        .orElseGet(CredentialsSecret::newPassword);
    return new SecretBuilder()
        .withNewMetadata()
        .withName(user.getMetadata().getName() + "-credentials")
        .withNamespace(user.getMetadata().getNamespace())
        .endMetadata()
        .addToData("user", encode(user.id()))
        .addToData("password", encode(password))
        .addToData("database", encode(user.getSpec().database))
        .build();
  }

  static String password(Secret secret) {
    var data = secret.getData();
    var known = data == null ? "" : data.getOrDefault("password", "");
    return new String(Base64.getDecoder().decode(known), StandardCharsets.UTF_8);
  }

  private static String newPassword() {
    var bytes = new byte[24];
    RANDOM.nextBytes(bytes);
    return Base64.getUrlEncoder().encodeToString(bytes);
  }

  private static String encode(String text) {
    return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
  }
}
