package peers

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// word is a message of a bridge to the others on its store, about a queue.
//
// Every client with permission to publish to inboxes can publish on the subjects of
// words, so a word is authenticated with the store's secret, for its queue. It carries
// the store time at which it was sent, which differs from word to word. A word with a
// time that was received before, or with an old one, is a copy sent by another client.
type word struct {
	kind byte
	at   time.Duration // store time
	id   string        // of the bridge
}

// Kinds of words.
const (
	wordHere    = '+' // the bridge is there
	wordGone    = '-' // the bridge ends
	wordContest = '!' // the bridge has lost a conflict at the queue
	wordClear   = '0' // nothing is under way to the bridge named in place of the queue
	wordTaken   = '=' // the bridge has taken the requests in a message of this time; see [answerTo]
)

// form names the form of all messages between bridges. It is part of their keys, so bridges with different forms do
// not hear each other, and each serves its own requests.
const form = "2"

// answerTo stands in the place of a queue in an answer to a bridge. No word has such a
// subject, so an answer is no word, no word an answer, and each is for one bridge.
func answerTo(id string) string { return "answer." + id }

const (
	// wordMac is the part of the HMAC-SHA256 that is kept.
	wordMac = 16

	// wordBody is the length of a word without its MAC and its bridge's id.
	wordBody = 1 + 8

	// maxID bounds the ids of bridges, which have 22 bytes.
	maxID = 64
)

// sealer authenticates words.
type sealer struct{ key []byte }

// newSealer derives the key for words from the store's secret, which is the key
// for other things as well.
func newSealer(secret []byte) sealer {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(form + " words of bridges"))
	return sealer{key: mac.Sum(nil)}
}

// mac authenticates the body of a word for a queue.
func (s sealer) mac(queue string, body []byte) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write(append([]byte{byte(len(queue))}, queue...))
	mac.Write(body)
	return mac.Sum(nil)[:wordMac]
}

// seal returns a word as it is sent.
func (s sealer) seal(queue string, w word) []byte {
	body := binary.BigEndian.AppendUint64([]byte{w.kind}, uint64(w.at))
	body = append(body, w.id...)
	return append(s.mac(queue, body), body...)
}

// open reads a word about the queue by a bridge on this store.
func (s sealer) open(queue string, sent []byte) (w word, ok bool) {
	if len(sent) <= wordMac+wordBody || len(sent) > wordMac+wordBody+maxID {
		return w, false
	}
	mac, body := sent[:wordMac], sent[wordMac:]
	if !hmac.Equal(mac, s.mac(queue, body)) {
		return w, false
	}
	return word{kind: body[0], at: time.Duration(binary.BigEndian.Uint64(body[1:])), id: string(body[wordBody:])}, true
}
