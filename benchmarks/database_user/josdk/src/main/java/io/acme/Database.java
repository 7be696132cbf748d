package io.acme;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.Map;

/** The service outside of the cluster in which the users are. */
public class Database {

  private final HttpClient client = HttpClient.newHttpClient();
  private final ObjectMapper mapper = new ObjectMapper();
  private final String url;

  public Database(String url) {
    this.url = url;
  }

  public void put(String id, String password, String database)
      throws IOException, InterruptedException {
    var body = mapper.writeValueAsString(Map.of("password", password, "database", database));
    send("PUT", id, BodyPublishers.ofString(body));
  }

  public void drop(String id) throws IOException, InterruptedException {
    send("DELETE", id, BodyPublishers.noBody());
  }

  private void send(String method, String id, BodyPublisher body)
      throws IOException, InterruptedException {
    var request = HttpRequest.newBuilder(URI.create(url + "/users/" + id))
        .method(method, body)
        .timeout(Duration.ofSeconds(10))
        .build();
    var response = client.send(request, BodyHandlers.discarding());
    if (response.statusCode() >= 300) {
      throw new IOException(method + " of user " + id + ": " + response.statusCode());
    }
  }
}
