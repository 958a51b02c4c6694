package bridge_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// setKey changes the settings of a key and returns them.
func (c *client) setKey(key, object string) protocol.KeySettings {
	c.Helper()
	return ofKey[protocol.KeySettings](c, subjects.AdminKey, key, object)
}

func (c *client) keyInfo(key string) protocol.KeyInfo {
	c.Helper()
	return ofKey[protocol.KeyInfo](c, subjects.Key, key, "")
}

// ofKey asks a verb of a key.
func ofKey[T any](c *client, verb subjects.Verb, key, body string) T {
	c.Helper()
	g, err := subjects.New("pq")
	if err != nil {
		c.Fatal(err)
	}
	subject, err := g.Build(subjects.Subject{Queue: "jobs", Verb: verb, Key: key})
	if err != nil {
		c.Fatal(err)
	}
	return object[T](c, subject, body)
}

// An administrator bounds, pauses and weighs one key. null drops a setting; 0 means none.
func TestAdminKey(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.refused(c.ask("pq.jobs.admin.key.ann", ""), 404, "unknown")
	c.refused(c.ask("pq.jobs.key.ann", ""), 404, "unknown")
	c.refused(c.ask("pq.jobs.keys", ""), 404, "unknown")
	for _, step := range []struct{ object, want string }{
		{`{"limit":5,"paused":true}`, `{"limit":5,"paused":true}`},
		{`{"rate":"100/1m","weight":7}`, `{"limit":5,"rate":"100/1m0s","weight":7,"paused":true}`},
		{``, `{"limit":5,"rate":"100/1m0s","weight":7,"paused":true}`},
		{`{"limit":null,"weight":null,"rate":"","paused":false}`, `{"rate":"","paused":false}`},
		{`{"limit":0}`, `{"limit":0,"rate":"","paused":false}`},
		{`{"limit":null,"rate":null,"paused":null}`, `{}`},
		{` {} `, `{}`},
	} {
		if got := string(c.ask("pq.jobs.admin.key.ann", step.object).Data); got != step.want {
			t.Errorf("%s answers %s, expected %s", step.object, got, step.want)
		}
	}
	if info := c.keyInfo("nobody"); info.Key != "nobody" || info.Ready+info.Leased != 0 || info.Weight != 1 || info.Tokens != nil || info.WaitsFor != "" {
		t.Errorf("a key that nobody has used: %+v", info)
	}
}

// A setting of a key that lets an item go has it delivered to a pop that waits.
func TestAdminKeyWakesWaitingPops(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ before, after, waitsFor string }{
		{`{"paused":true}`, `{"paused":null}`, "pause"},
		{`{"limit":1}`, `{"limit":2}`, "key_limit"},
		{`{"rate":"1/24h"}`, `{"rate":""}`, "key_rate"},
	} {
		t.Run(tc.waitsFor, func(t *testing.T) {
			t.Parallel()
			c := serve(t, bridge.Options{})
			c.second(bridge.Options{}) // which may have the waiting pop, or the change
			c.configure(`{"lease":"1h"}`)
			c.setKey("ann", tc.before)
			for n := range 3 {
				c.key("ann", fmt.Sprint(n))
			}
			if tc.waitsFor != "pause" {
				c.pop("pq.jobs.pop.min", "") // what is left waits for what is set
			}
			c.blocked()
			if info := c.keyInfo("ann"); string(info.WaitsFor) != tc.waitsFor {
				t.Errorf("%+v", info)
			}
			waits := c.send("pq.jobs.pop.min", "", "PQ-Wait", forever)
			c.waiting("jobs", 1)
			c.setKey("ann", tc.after)
			if m := c.next(waits); m.Header.Get("PQ-Key") != "ann" {
				t.Errorf("%q, %v", m.Data, m.Header)
			}
		})
	}
}

// Keys with whatever bytes a key may have are reached by their subjects.
func TestKeysInSubjects(t *testing.T) {
	t.Parallel()
	c := serve(t)
	keys := []string{"a.b", "*", ">", "100%", "Ann & S\u00f6hne", "x y", "%2E", strings.Repeat("\u00e9", 64)}
	for i, key := range keys {
		c.key(key, key)
		c.setKey(key, fmt.Sprintf(`{"weight":%d}`, i+1))
	}
	for i, key := range keys {
		if info := c.keyInfo(key); info.Key != key || info.Ready != 1 || info.Weight != int64(i+1) || info.Settings.Weight == nil {
			t.Errorf("%q: %+v", key, info)
		}
		if m := c.ask("pq.jobs.key."+strings.NewReplacer("+", "%20", ".", "%2E", "*", "%2A", "~", "%7E").Replace(url.QueryEscape(key)), ""); len(m.Data) == 0 {
			t.Errorf("%q: %v", key, m.Header)
		}
	}
}

// keys shows pages of keys in the order of their bytes: those with items or settings.
func TestKeys(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.configure(`{"key_limit":2}`)
	for _, key := range []string{"b", "d", "a", "d"} {
		c.key(key, "x")
	}
	c.push("pq.jobs.push.-1", "x", "PQ-Key", "gone")
	c.accepted(c.raw(c.leased("x").Reply, "+ACK"))
	c.push("pq.jobs.push.-1", "x", "PQ-Key", "held")
	c.leased("x")
	c.setKey("c", `{"paused":true}`)
	var all []string
	for body, pages := "", 0; ; pages++ {
		page := object[protocol.KeysPage](c, "pq.jobs.keys", fmt.Sprintf(`{"limit":2%s}`, body))
		for _, k := range page.Keys {
			all = append(all, fmt.Sprintf("%s %d %d", k.Key, k.Ready, k.Leased))
		}
		if page.Next == "" {
			if pages != 2 {
				t.Errorf("%d pages before the last one", pages)
			}
			break
		}
		body = fmt.Sprintf(`,"after":%q`, page.Next)
	}
	if want := []string{"a 1 0", "b 1 0", "c 0 0", "d 2 0", "held 0 1"}; !slices.Equal(all, want) {
		t.Errorf("%q, expected %q", all, want)
	}
	if page := object[protocol.KeysPage](c, "pq.jobs.keys", ""); len(page.Keys) != 5 || page.Next != "" {
		t.Errorf("%+v", page)
	}
	if page := object[protocol.KeysPage](c, "pq.jobs.keys", `{"after":"d","limit":100000}`); len(page.Keys) != 1 {
		t.Errorf("%+v", page)
	}
	if m := c.ask("pq.jobs.keys", `{"after":"x"}`); string(m.Data) != `{"keys":[]}` {
		t.Errorf("%s", m.Data)
	}
}

// A page has up to 100 keys, also where JSON makes their names long.
func TestLongKeys(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for i := range 120 {
		c.setKey(fmt.Sprintf("%s%03d", strings.Repeat("<", 125), i), `{"paused":true,"weight":1000,"limit":1000,"rate":"1000000/24h"}`)
	}
	var sizes []int
	for after := ""; ; {
		page := object[protocol.KeysPage](c, "pq.jobs.keys", fmt.Sprintf(`{"after":%q}`, after))
		sizes = append(sizes, len(page.Keys))
		if after = page.Next; after == "" {
			break
		}
	}
	if !slices.Equal(sizes, []int{100, 20}) {
		t.Errorf("pages of %v keys", sizes)
	}
}
