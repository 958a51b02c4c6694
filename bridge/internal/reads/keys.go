package reads

import (
	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// keys shows a page of keys.
type keys struct {
	jsonQuery
	after string
	limit int
}

func Keys(subjects.Verb) desk.Work { return new(keys) }

func (k *keys) Expects() int { return k.limit / listedPart }

func (k *keys) Read(*codec.Wire) *failure.Failure {
	k.limit = protocol.MaxKeysPage
	return codec.ReadOptions(k.Msg, k.Subject.Verb.String(), "limit, after", k.field)
}

func (k *keys) field(name string, value any) (known bool, f *failure.Failure) {
	switch name {
	case "limit":
		k.limit, f = codec.ReadLimit(name, value)
		k.limit = min(k.limit, protocol.MaxKeysPage)
	case "after":
		if k.after, f = codec.ReadString(name, value); f == nil && k.after != "" {
			k.after, f = codec.ReadKey(name, k.after)
		}
	default:
		return false, nil
	}
	return true, f
}

func (k *keys) Find(v *View) error {
	found, err := v.Queue.Keys(v.Reader, k.after, k.limit)
	if err != nil {
		return desk.AnswerNoQueue(&k.Request, err)
	}
	more := false
	if len(found) == k.limit {
		behind, err := v.Queue.Keys(v.Reader, found[len(found)-1].Key, 1)
		if err != nil {
			return err
		}
		more = len(behind) > 0
	}
	page := protocol.KeysPage{Keys: []protocol.KeyInfo{}}
	space := int(v.Conn.MaxPayload()) - pageReserve - fdbpq.MaxKey*maxEscape
	for i := range found {
		info := keyInfo(&found[i])
		text, err := protocol.Marshal(info)
		if err != nil {
			return err
		}
		if space -= len(text) + len(","); space < 0 && i > 0 {
			more = true
			break
		}
		page.Keys = append(page.Keys, info)
	}
	if more {
		page.Next = page.Keys[len(page.Keys)-1].Key
	}
	return k.answerJSON(page)
}

// maxEscape is the largest factor by which JSON lengthens a byte of a text: \u0001.
const maxEscape = 6

// keyInfo is the state of a key, as it is answered.
func keyInfo(k *fdbpq.KeyInfo) protocol.KeyInfo {
	info := protocol.KeyInfo{
		Key: k.Key, Ready: k.Ready, More: k.More, Leased: k.Leased, Limit: k.Limit, Rate: k.Rate.String(), Weight: k.Weight,
		WaitsFor: string(k.WaitsFor), Retry: protocol.Duration(k.Retry), Settings: codec.KeySettings(&k.Settings),
	}
	if k.Rate != (fdbpq.Rate{}) {
		info.Tokens = &k.Tokens
	}
	if k.CostRate != (fdbpq.CostRate{}) {
		info.CostRate, info.CostTokens = k.CostRate.String(), &k.CostTokens
	}
	return info
}

// key shows one key.
type key struct{ jsonQuery }

func Key(subjects.Verb) desk.Work { return new(key) }

func (k *key) Read(*codec.Wire) *failure.Failure {
	if f := codec.NoOptions(k.Msg, k.Subject.Verb.String()); f != nil {
		return f
	}
	_, f := codec.ReadKey("the key", k.Subject.Key)
	return f
}

func (k *key) Find(v *View) error {
	info, err := v.Queue.Key(v.Reader, k.Subject.Key)
	if err != nil {
		return desk.AnswerNoQueue(&k.Request, err)
	}
	return k.answerJSON(keyInfo(&info))
}
