// The least that receiving a watch over TLS costs: a blocking read, and a count of newlines.
//
//     floor SERVER CA_FILE CONTROL REQUEST
//
// SERVER and CONTROL are host:port. REQUEST is sent to the server as it is. When the answer begins,
// the updates are released at CONTROL. It ends when the stream does.
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char released[] = "POST /benchmark/release HTTP/1.0\r\nContent-Length: 0\r\n\r\n";
static char room[256 * 1024];

static void fail(const char *reason) {
  fprintf(stderr, "floor-c: %s\n", reason);
  ERR_print_errors_fp(stderr);
  exit(1);
}

static BIO *connected(BIO *made, const char *address) {
  if (made == NULL || BIO_set_conn_hostname(made, address) != 1 || BIO_do_connect(made) != 1)
    fail("no connection");
  return made;
}

static void send_all(BIO *to, const char *text) {
  int length = (int)strlen(text);
  if (BIO_write(to, text, length) != length) fail("the request was not sent");
}

static BIO *follow(const char *address, const char *ca_file, const char *request) {
  SSL_CTX *context = SSL_CTX_new(TLS_client_method());
  if (context == NULL || SSL_CTX_load_verify_locations(context, ca_file, NULL) != 1)
    fail("the authority cannot be read");
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
  SSL_CTX_set_read_ahead(context, 1);  // else one call reads a record's header, another the rest
  SSL_CTX_set_default_read_buffer_len(context, 64 * 1024);
  BIO *stream = connected(BIO_new_ssl_connect(context), address);
  send_all(stream, request);
  return stream;
}

int main(int count, char **words) {
  if (count != 5) fail("usage: floor SERVER CA_FILE CONTROL REQUEST");
  BIO *stream = follow(words[1], words[2], words[4]);
  int length = BIO_read(stream, room, sizeof room - 1);
  if (length <= 0 || strncmp(room, "HTTP/1.1 200 ", 13) != 0) fail("the server does not serve the watch");
  BIO *control = connected(BIO_new(BIO_s_connect()), words[3]);
  send_all(control, released);
  BIO_free_all(control);
  long lines = 0;
  while ((length = BIO_read(stream, room, sizeof room)) > 0)
    for (char *at = room; (at = memchr(at, '\n', room + length - at)) != NULL; at++) lines++;
  printf("%ld newlines\n", lines);
  fail("the watch has ended");
}
