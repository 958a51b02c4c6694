// A gateway in front of a language model whose provider bounds the tokens of a minute. Requests wait here, in a queue, and not in the
// provider's refusals: the most urgent of each tenant first, to each tenant its share of the tokens.
//
//	go run ./examples/llm/gateway
//
// The queue reserves the most that a request may cost, its prompt and all of max_tokens; the worker says what it has really cost.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
)

// patience is how long a request may wait: then nobody wants the answer any more.
const patience = time.Minute

func main() {
	nc, err := nats.Connect(cmp.Or(os.Getenv("NATS_URL"), nats.DefaultURL), nats.Name("gateway"), nats.MaxReconnects(-1))
	if err != nil {
		log.Fatal(err)
	}
	c, err := client.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("POST /complete", gateway{c.Queue("prompts")})
	log.Fatal(http.ListenAndServe(cmp.Or(os.Getenv("GATEWAY_LISTEN"), "127.0.0.1:8700"), nil))
}

type gateway struct{ queue *client.Queue }

// ServeHTTP answers a request when a worker has done it. Whoever hangs up cancels it.
func (g gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 256<<10))
	var asked struct {
		Prompt    string `json:"prompt"`
		MaxTokens int64  `json:"max_tokens"`
		Priority  int64  `json:"priority"` // low is urgent
	}
	tenant := r.Header.Get("X-Tenant") // from the proxy that knows who asks
	if err = cmp.Or(err, json.Unmarshal(body, &asked)); err != nil || tenant == "" || asked.MaxTokens < 1 || asked.Priority < 0 {
		http.Error(w, `expected the header X-Tenant, and {"prompt":"…","max_tokens":100,"priority":0}`, http.StatusBadRequest)
		return
	}
	ctx, done := context.WithTimeout(r.Context(), patience)
	defer done()
	most := int64(len(strings.Fields(asked.Prompt))) + asked.MaxTokens // your model's tokenizer knows better
	result, err := g.queue.PushAndWait(ctx, body, client.Key(tenant), client.Priority(asked.Priority), client.Cost(most),
		client.TTL(patience), client.CancelOnHangUp())
	var refused *client.Error
	switch {
	case r.Context().Err() != nil: // nobody is there
	case errors.As(err, &refused) && refused.Code == http.StatusTooManyRequests:
		http.Error(w, "too many requests wait", http.StatusTooManyRequests)
	case errors.Is(err, context.DeadlineExceeded) || err == nil && result.Outcome == protocol.FinishExpired:
		http.Error(w, "it was not this request's turn in time", http.StatusGatewayTimeout)
	case err != nil || result.Outcome != protocol.FinishDone:
		log.Printf("tenant %s: %v, %+v", tenant, err, result)
		http.Error(w, "the model has not answered", http.StatusBadGateway)
	default:
		_, _ = w.Write(result.Body)
	}
}
