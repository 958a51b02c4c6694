package peers

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/nats-io/nats.go"
)

// passed is a message with requests that a bridge passes on to another one.
//
// It is encrypted for one bridge, with the store's secret. Otherwise every client with permission to publish to
// inboxes could forge such a message, and a client that may listen there could read the leases that requests
// settle. It carries the store time at which it was sent, which differs from message to message, so the other
// bridge recognises a copy.
type passed struct {
	from     string
	at       time.Duration // store time
	requests []*nats.Msg
}

// passSealer encrypts messages with requests.
type passSealer struct{ box }

func newPassSealer(secret []byte) passSealer {
	return passSealer{box{secret: secret, what: "requests"}}
}

// box encrypts the messages of bridges to others on the store.
type box struct {
	secret []byte
	what   string // the kind of message: none can pass for another kind
}

// aead returns the cipher for the messages of a bridge. Each bridge has a key of its own: it uses each store time
// once, as the nonce.
func (b box) aead(from string) cipher.AEAD {
	mac := hmac.New(sha256.New, b.secret)
	mac.Write([]byte(form + " " + b.what + " of " + from))
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		panic(err) // a SHA-256 has the length of a key
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // AES has the right block size
	}
	return aead
}

// nonceOf is the nonce of a message: the time, which stands before the sender's id.
func nonceOf(aead cipher.AEAD, sent []byte) []byte {
	nonce := make([]byte, aead.NonceSize())
	copy(nonce[len(nonce)-timeBytes:], sent[:timeBytes])
	return nonce
}

const timeBytes = 8

// seal returns a message to a bridge as it is sent: time, id of the sender, and encrypted the
// requests.
func (s passSealer) seal(to string, p passed) []byte {
	var plain []byte
	for _, m := range p.requests {
		plain = appendText(plain, m.Subject)
		plain = appendText(plain, m.Reply)
		plain = appendText(plain, string(m.Data))
		values := 0
		for _, of := range m.Header {
			values += len(of)
		}
		plain = binary.AppendUvarint(plain, uint64(values))
		for key, of := range m.Header {
			for _, value := range of {
				plain = appendText(appendText(plain, key), value)
			}
		}
	}
	return s.close(to, p.from, p.at, plain)
}

// close returns a message to a bridge, or to all, as it is sent.
func (b box) close(to, from string, at time.Duration, plain []byte) []byte {
	out := binary.BigEndian.AppendUint64(nil, uint64(at))
	out = append(append(out, byte(len(from))), from...)
	aead := b.aead(from)
	return aead.Seal(out, nonceOf(aead, out), plain, []byte(to))
}

// open reads a message that a bridge on this store has sent to the one with the id.
func (s passSealer) open(to string, sent []byte) (p passed, ok bool) {
	var plain []byte
	if p.from, p.at, plain, ok = s.read(to, sent); !ok {
		return p, false
	}
	in := texts{rest: plain}
	for len(in.rest) > 0 {
		m := &nats.Msg{Subject: in.next(), Reply: in.next(), Data: []byte(in.next())}
		for n := in.number(); n > 0 && !in.broken; n-- {
			if m.Header == nil {
				m.Header = make(nats.Header)
			}
			key := in.next()
			m.Header[key] = append(m.Header[key], in.next())
		}
		p.requests = append(p.requests, m)
	}
	return p, !in.broken
}

// read reads a message that close has made.
func (b box) read(to string, sent []byte) (from string, at time.Duration, plain []byte, ok bool) {
	if len(sent) <= timeBytes {
		return "", 0, nil, false
	}
	length := int(sent[timeBytes])
	if length == 0 || length > maxID || len(sent) < timeBytes+1+length {
		return "", 0, nil, false
	}
	at = time.Duration(binary.BigEndian.Uint64(sent))
	from = string(sent[timeBytes+1:][:length])
	aead := b.aead(from)
	plain, err := aead.Open(nil, nonceOf(aead, sent), sent[timeBytes+1+length:], []byte(to))
	return from, at, plain, err == nil
}

func appendText(to []byte, text string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

// texts reads texts and numbers. It is broken when they end too early.
type texts struct {
	rest   []byte
	broken bool
}

func (t *texts) number() uint64 {
	n, size := binary.Uvarint(t.rest)
	if size <= 0 {
		t.broken, t.rest = true, nil
		return 0
	}
	t.rest = t.rest[size:]
	return n
}

func (t *texts) next() string {
	n := t.number()
	if n > uint64(len(t.rest)) {
		t.broken, t.rest = true, nil
		return ""
	}
	text := string(t.rest[:n])
	t.rest = t.rest[n:]
	return text
}
