// A stand-in for the provider of a language model. It counts tokens, and refuses what would be more than its limit in any minute.
//
//	go run ./examples/llm/provider
//
// GET /journal has a line for each request: when it came, whose it was, its tokens, and whether it was refused.
package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

var (
	limit = flag.Int64("limit", 90_000, "tokens within -per")
	per   = flag.Duration("per", time.Minute, "time in which there may be so many")
)

// line is a request in the journal.
type line struct {
	At       time.Time `json:"at"`
	Tenant   string    `json:"tenant"`
	Priority int64     `json:"priority"`
	Tokens   int64     `json:"tokens"`
	Refused  bool      `json:"refused,omitempty"`
}

type provider struct {
	mu      sync.Mutex
	journal []line
	first   int   // of the lines within the last time
	sum     int64 // of their tokens
}

func main() {
	flag.Parse()
	p := new(provider)
	http.HandleFunc("POST /complete", p.complete)
	http.HandleFunc("GET /journal", p.show)
	log.Fatal(http.ListenAndServe(cmp.Or(os.Getenv("PROVIDER_LISTEN"), "127.0.0.1:8701"), nil))
}

// complete answers with fewer tokens than asked for as a rule, which only the provider knows.
func (p *provider) complete(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Prompt    string `json:"prompt"`
		MaxTokens int64  `json:"max_tokens"`
		Priority  int64  `json:"priority"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.MaxTokens < 1 {
		http.Error(w, `expected {"prompt":"…","max_tokens":100}`, http.StatusBadRequest)
		return
	}
	hash := fnv.New32()
	_, _ = hash.Write([]byte(asked.Prompt))
	said := 1 + int64(hash.Sum32())%asked.MaxTokens
	one := line{time.Now(), r.Header.Get("X-Tenant"), asked.Priority, int64(len(strings.Fields(asked.Prompt))) + said, false}
	if p.count(&one); one.Refused {
		w.Header().Set("Retry-After", "1")
		http.Error(w, fmt.Sprintf("more than %d tokens in %s", *limit, *per), http.StatusTooManyRequests)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"text": fmt.Sprintf("%d words about %q", said, asked.Prompt), "tokens": one.Tokens})
}

// count writes a request into the journal. Only tokens that are not refused count.
func (p *provider) count(one *line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ; p.first < len(p.journal) && one.At.Sub(p.journal[p.first].At) >= *per; p.first++ {
		p.sum -= p.journal[p.first].counts()
	}
	one.Refused = p.sum+one.Tokens > *limit
	p.sum += one.counts()
	p.journal = append(p.journal, *one)
}

func (l *line) counts() int64 {
	if l.Refused {
		return 0
	}
	return l.Tokens
}

func (p *provider) show(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	journal := p.journal // which only grows
	p.mu.Unlock()
	for _, one := range journal {
		if err := json.NewEncoder(w).Encode(one); err != nil {
			return
		}
	}
}
