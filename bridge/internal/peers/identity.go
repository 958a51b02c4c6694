package peers

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// Identity is a bridge's description of itself for other bridges.
type Identity struct {
	ID      string    // of the bridge, from its start to its end
	Prefix  string    // of the subjects that it serves
	StoreID string    // a copy of a store has the id of its original
	Started time.Time // zero for a bridge whose store can be shared
	Site    string    // its name stands in front of another prefix that the bridge serves; "": none
	AtSite  bool      // Prefix is the prefix of the site
	Server  Server
}

// Server is the NATS server that a bridge is connected to.
type Server struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Cluster string `json:"cluster,omitempty"`
}

// serverOf is the present server of a connection.
func serverOf(nc *nats.Conn) Server {
	return Server{ID: nc.ConnectedServerId(), Name: nc.ConnectedServerName(), Cluster: nc.ConnectedClusterName()}
}

// beside reports whether two servers are the same, or of one cluster. Between others there is a
// leaf node or a gateway.
func (s Server) beside(o Server) bool {
	return s.ID == o.ID || s.Cluster != "" && s.Cluster == o.Cluster
}

// Metadata of the NATS service that a bridge is.
const (
	metaPrefix  = "prefix"
	metaStoreID = "store_id"
	metaStarted = "started" // of bridges that have their store for themselves
	metaSite    = "site"    // of bridges with one
	metaServer  = "server_id"
	metaName    = "server_name"
	metaCluster = "cluster" // of a server that has one
)

// Metadata is the identity, without the id, as service discovery shows it.
func (i Identity) Metadata() map[string]string {
	meta := map[string]string{metaPrefix: i.Prefix, metaStoreID: i.StoreID}
	if i.exclusive() {
		meta[metaStarted] = i.Started.UTC().Format(time.RFC3339Nano)
	}
	for name, value := range map[string]string{metaSite: i.Site, metaServer: i.Server.ID, metaName: i.Server.Name, metaCluster: i.Server.Cluster} {
		if value != "" {
			meta[name] = value
		}
	}
	return meta
}

// identitiesOf reads a bridge's description in service discovery: an identity for each prefix.
func identitiesOf(s micro.ServiceIdentity) []Identity {
	meta := s.Metadata
	i := Identity{
		ID: s.ID, Prefix: meta[metaPrefix], StoreID: meta[metaStoreID], Started: startedOf(meta[metaStarted]), Site: meta[metaSite],
		Server: Server{ID: meta[metaServer], Name: meta[metaName], Cluster: meta[metaCluster]},
	}
	if i.Site == "" {
		return []Identity{i}
	}
	return []Identity{i, i.Remote()}
}

// On returns the identity with the present NATS server of a connection.
func (i Identity) On(nc *nats.Conn) Identity {
	i.Server = serverOf(nc)
	return i
}

// Remote is the identity of the bridge under the prefix that other sites use.
func (i Identity) Remote() Identity {
	i.Prefix, i.AtSite = i.Site+"."+i.Prefix, true
	return i
}

// startedOf reads a time. A time that cannot be read counts as none, so such a bridge never goes on standby.
func startedOf(text string) time.Time {
	started, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return started
}

// exclusive reports whether only this bridge's process can open its store.
func (i Identity) exclusive() bool { return !i.Started.IsZero() }

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
