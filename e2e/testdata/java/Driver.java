// The driver of jnats for clients/cases_test.go: java Driver nats://127.0.0.1:4222
import io.nats.client.Connection;
import io.nats.client.JetStreamApiException;
import io.nats.client.JetStreamOptions;
import io.nats.client.Message;
import io.nats.client.Nats;
import io.nats.client.Options;
import io.nats.client.Subscription;
import io.nats.client.api.PublishAck;
import io.nats.client.impl.Headers;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

public class Driver {
  static Connection nc;
  static Message item; // the last one with a reply subject

  public static void main(String[] args) throws Exception {
    nc = Nats.connect(new Options.Builder().server(args[0]).reportNoResponders().build());
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = input.readLine()) != null; ) {
      String[] words = line.split("\t", -1);
      try {
        Headers headers = words.length > 4 ? new Headers() : null;
        for (int i = 4; i < words.length; i += 2) headers.add(text(words[i]), text(words[i + 1]));
        run(text(words[0]), text(words[1]), bytes(words[2]), Duration.ofMillis(Long.parseLong(words[3])), headers);
      } catch (Throwable err) {
        showError(err);
      }
      System.out.println(".");
    }
    nc.close();
  }

  static void run(String what, String subject, byte[] body, Duration timeout, Headers headers) throws Exception {
    switch (what) {
      case "publish":
        PublishAck ack = nc.jetStream(JetStreamOptions.builder().requestTimeout(timeout).build()).publish(subject, headers, body);
        show("stored", ack.getStream(), "" + ack.getSeqno(), "" + ack.isDuplicate());
        return;
      case "request":
        // With reportNoResponders the future says why there is no answer.
        showMessage(nc.request(subject, headers, body).get(timeout.toMillis(), TimeUnit.MILLISECONDS));
        return;
      case "many":
        String inbox = nc.createInbox();
        Subscription sub = nc.subscribe(inbox);
        nc.publish(subject, inbox, headers, body);
        for (String status = null; status == null; ) {
          Message m = sub.nextMessage(timeout);
          if (m == null) throw new TimeoutException();
          showMessage(m);
          status = m.hasHeaders() ? m.getHeaders().getFirst("Status") : null;
        }
        sub.unsubscribe();
        return;
      case "send":
        nc.publish(subject, headers, body);
        return;
      case "ack":
        item.ack();
        return;
      case "ack sync":
        item.ackSync(timeout);
        return;
      case "nak":
        item.nak();
        return;
      case "term":
        item.term();
        return;
      case "in progress":
        item.inProgress();
        return;
      default:
        throw new IllegalArgumentException("a message has no " + what);
    }
  }

  static void showMessage(Message m) {
    if (m.getReplyTo() != null) item = m;
    List<Object> words = new ArrayList<>(List.of("message", m.getData(), m.getReplyTo() == null ? "" : m.getReplyTo()));
    if (m.hasHeaders()) {
      for (String name : m.getHeaders().keySet()) {
        for (String value : m.getHeaders().get(name)) {
          words.add(name);
          words.add(value);
        }
      }
    }
    show(words.toArray());
  }

  static void showError(Throwable err) {
    Throwable cause = err instanceof ExecutionException ? err.getCause() : err;
    String text = cause + "";
    if (cause instanceof JetStreamApiException) {
      JetStreamApiException refused = (JetStreamApiException) cause;
      show("error", "refused", "" + refused.getErrorCode(), "" + refused.getApiErrorCode(), text);
    } else if (text.contains("503")) {
      show("error", "no responders", "0", "0", text);
    } else if (cause instanceof TimeoutException || cause instanceof CancellationException) {
      show("error", "timeout", "0", "0", text);
    } else {
      show("error", "other", "0", "0", text);
    }
  }

  static void show(Object... words) {
    StringBuilder line = new StringBuilder();
    for (Object word : words) {
      if (line.length() > 0) line.append('\t');
      for (byte b : word instanceof byte[] ? (byte[]) word : ((String) word).getBytes(StandardCharsets.UTF_8)) {
        line.append(String.format("%%%02X", b));
      }
    }
    System.out.println(line);
  }

  static byte[] bytes(String word) {
    ByteArrayOutputStream plain = new ByteArrayOutputStream();
    for (int i = 0; i < word.length(); i++) {
      if (word.charAt(i) == '%') {
        plain.write(Integer.parseInt(word.substring(i + 1, i + 3), 16));
        i += 2;
      } else {
        plain.write(word.charAt(i));
      }
    }
    return plain.toByteArray();
  }

  static String text(String word) {
    return new String(bytes(word), StandardCharsets.UTF_8);
  }
}
