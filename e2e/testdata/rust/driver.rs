// The driver of async-nats for clients/cases_test.go: driver nats://127.0.0.1:4222
use std::error::Error as StdError;
use std::time::Duration;

use async_nats::jetstream::{self, AckKind};
use async_nats::{Client, HeaderMap, Message, Request};
use futures::StreamExt;
use tokio::io::{AsyncBufReadExt, BufReader};

type Error = Box<dyn StdError + Send + Sync>;

struct Driver {
    client: Client,
    item: Option<Message>, // the last one with a reply subject
}

impl Driver {
    async fn run(&mut self, what: &str, subject: String, body: Vec<u8>, timeout: Duration, headers: Option<HeaderMap>) -> Result<(), Error> {
        match what {
            "publish" => {
                let mut js = jetstream::new(self.client.clone());
                js.set_timeout(timeout);
                let ack = match headers {
                    Some(headers) => js.publish_with_headers(subject, headers, body.into()).await?.await?,
                    None => js.publish(subject, body.into()).await?.await?,
                };
                show(&[b"stored", ack.stream.as_bytes(), ack.sequence.to_string().as_bytes(), ack.duplicate.to_string().as_bytes()]);
            }
            "request" => {
                let mut request = Request::new().payload(body.into()).timeout(Some(timeout));
                if let Some(headers) = headers {
                    request = request.headers(headers);
                }
                let answer = self.client.send_request(subject, request).await?;
                self.show(answer);
            }
            "many" => {
                let inbox = self.client.new_inbox();
                let mut answers = self.client.subscribe(inbox.clone()).await?;
                self.client.publish_with_reply_and_headers(subject, inbox, headers.unwrap_or_default(), body.into()).await?;
                loop {
                    let answer = tokio::time::timeout(timeout, answers.next()).await?.ok_or("the subscription ended")?;
                    let last = answer.headers.as_ref().is_some_and(|headers| headers.get("Status").is_some());
                    self.show(answer);
                    if last {
                        break;
                    }
                }
            }
            "send" => self.client.publish_with_headers(subject, headers.unwrap_or_default(), body.into()).await?,
            "ack" => self.message()?.ack().await?,
            "ack sync" => self.message()?.double_ack().await?,
            "nak" => self.message()?.ack_with(AckKind::Nak(None)).await?,
            "term" => self.message()?.ack_with(AckKind::Term).await?,
            "in progress" => self.message()?.ack_with(AckKind::Progress).await?,
            _ => return Err(format!("a message has no {what}").into()),
        }
        Ok(())
    }

    // The item as a message of JetStream.
    fn message(&self) -> Result<jetstream::Message, Error> {
        let message = self.item.clone().ok_or("there is no item")?;
        Ok(jetstream::Message { message, context: jetstream::new(self.client.clone()) })
    }

    fn show(&mut self, m: Message) {
        let reply = m.reply.as_ref().map(|reply| reply.to_string()).unwrap_or_default();
        let mut words = vec![b"message".to_vec(), m.payload.to_vec(), reply.into_bytes()];
        for (name, values) in m.headers.iter().flat_map(|headers| headers.iter()) {
            for value in values {
                words.push(name.to_string().into_bytes());
                words.push(value.to_string().into_bytes());
            }
        }
        show(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
        if m.reply.is_some() {
            self.item = Some(m);
        }
    }
}

fn show_error(err: Error) {
    let (mut text, mut codes, mut source) = (err.to_string(), ("0".to_string(), "0".to_string()), err.source());
    while let Some(cause) = source {
        text += &format!(": {cause}");
        if let Some(refused) = cause.downcast_ref::<jetstream::Error>() {
            codes = (refused.code().to_string(), refused.error_code().0.to_string());
        }
        source = cause.source();
    }
    let word = if codes.1 != "0" {
        "refused"
    } else if text.contains("no responders") {
        "no responders"
    } else if text.contains("timed out") || text.contains("elapsed") {
        "timeout"
    } else {
        "other"
    };
    show(&[b"error", word.as_bytes(), codes.0.as_bytes(), codes.1.as_bytes(), text.as_bytes()]);
}

// Bytes are escaped as in URLs.
fn show(words: &[&[u8]]) {
    let escaped: Vec<String> = words.iter().map(|word| word.iter().map(|byte| format!("%{byte:02X}")).collect()).collect();
    println!("{}", escaped.join("\t"));
}

fn bytes(word: &str) -> Vec<u8> {
    let (mut plain, mut rest) = (Vec::new(), word.as_bytes());
    while let Some((&byte, behind)) = rest.split_first() {
        if byte == b'%' {
            plain.push(u8::from_str_radix(&String::from_utf8_lossy(&behind[..2]), 16).unwrap());
            rest = &behind[2..];
        } else {
            plain.push(byte);
            rest = behind;
        }
    }
    plain
}

fn text(word: &str) -> String {
    String::from_utf8(bytes(word)).unwrap()
}

fn headers(words: &[&str]) -> Result<Option<HeaderMap>, Error> {
    let mut headers = HeaderMap::new();
    for pair in words.chunks(2) {
        headers.append(text(pair[0]), text(pair[1]));
    }
    Ok(if words.is_empty() { None } else { Some(headers) })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let server = std::env::args().nth(1).ok_or("expected an address")?;
    let mut driver = Driver { client: async_nats::connect(server).await?, item: None };
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let words: Vec<&str> = line.split('\t').collect();
        let timeout = Duration::from_millis(words[3].parse()?);
        let result = match headers(&words[4..]) {
            Ok(headers) => driver.run(&text(words[0]), text(words[1]), bytes(words[2]), timeout, headers).await,
            Err(err) => Err(err),
        };
        if let Err(err) = result {
            show_error(err);
        }
        println!(".");
    }
    Ok(())
}
