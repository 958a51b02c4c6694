package settings

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/pqbridge/pqbridge/internal/jetstream"
)

// StoreName is local:<directory>, fdb:<cluster file>, the latter optionally followed by
// ?prefix=<name> to share a cluster with others, or jetstream:<name>.
type StoreName struct {
	Engine, Place, Prefix string
	Stream                streamOptions // of jetstream
}

// Embedded reports whether the store consists of files that belong to this process alone.
func (n *StoreName) Embedded() bool { return n.Engine == "local" }

// streamOptions are the options behind jetstream:<name>.
type streamOptions struct {
	Replicas int    // 0: three
	sync     string // always or os, as the servers are configured; "": not declared
	MaxBytes int64  // 0: not known
	Domain   string
}

func (n *StoreName) Decode(value string) error {
	engine, place, _ := strings.Cut(value, ":")
	switch {
	case place == "":
	case engine == "local":
		*n = StoreName{Engine: engine, Place: place}
		return nil
	case engine == "fdb":
		return n.decodeFDB(place)
	case engine == "jetstream":
		return n.decodeJetStream(place)
	}
	return errors.New("expected local:<directory>, jetstream:<name> or fdb:<cluster file>")
}

// maxStorePrefix keeps keys short: every one begins with the prefix.
const maxStorePrefix = 64

func (n *StoreName) decodeFDB(place string) error {
	file, query, found := strings.Cut(place, "?")
	name, isPrefix := strings.CutPrefix(query, "prefix=")
	if found && (!isPrefix || name == "" || len(name) > maxStorePrefix) {
		return fmt.Errorf("found ?%s behind the cluster file: expected ?prefix=<name> with 1 to %d bytes", query, maxStorePrefix)
	}
	*n = StoreName{Engine: "fdb", Place: file, Prefix: name}
	return nil
}

const (
	syncAlways = "always"
	syncOS     = "os"
)

func (n *StoreName) decodeJetStream(place string) error {
	name, query, _ := strings.Cut(place, "?")
	if err := jetstream.CheckName(name); err != nil {
		return fmt.Errorf("the name of the store %q: %w", name, err)
	}
	options, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("found ?%s behind the name: expected <option>=<value>, joined by &", query)
	}
	stream := streamOptions{}
	for option, values := range options {
		value := values[len(values)-1]
		switch {
		case len(values) > 1:
			err = fmt.Errorf("found %s %d times: expected it once", option, len(values))
		case option == "replicas":
			if stream.Replicas, err = strconv.Atoi(value); err != nil || stream.Replicas < 1 || stream.Replicas > 5 || stream.Replicas%2 == 0 {
				err = errors.New("replicas: expected 3 or 5, or 1 for a store that is lost with its server")
			}
		case option == "sync":
			if stream.sync = value; value != syncAlways && value != syncOS {
				err = errors.New("sync: expected always or os")
			}
		case option == "max_bytes":
			stream.MaxBytes, err = parseSize(value)
		case option == "domain":
			stream.Domain = value
			err = jetstream.CheckName(value)
		default:
			err = fmt.Errorf("found the option %q: expected replicas, sync, max_bytes or domain", option)
		}
		if err != nil {
			return err
		}
	}
	*n = StoreName{Engine: "jetstream", Place: name, Stream: stream}
	return nil
}

// units are the units of sizes, as nats-server reads them.
const units = "KMGT"

// minLog is the smallest log: a few of the largest transactions.
const minLog = 64 << 20

func parseSize(value string) (int64, error) {
	n, err := parseBytes(value)
	if err != nil || n < minLog {
		return 0, fmt.Errorf("max_bytes: expected a number of bytes from %dM on, with K, M, G or T behind it if you like", minLog>>20)
	}
	return n, nil
}

func parseBytes(value string) (int64, error) {
	digits := strings.TrimRight(value, units)
	n, err := strconv.ParseInt(digits, 10, 64)
	factor := int64(1)
	if unit := value[len(digits):]; err == nil && len(unit) == 1 {
		factor = 1 << (10 * (strings.Index(units, unit) + 1))
	} else if unit != "" {
		err = errors.New("more than one unit")
	}
	if err != nil || n < 0 || n > (1<<62)/factor {
		return 0, errors.New("expected a number of bytes, with K, M, G or T behind it if you like")
	}
	return n * factor, nil
}

func (n StoreName) String() string {
	switch {
	case n.Engine == "jetstream":
		return n.Engine + ":" + n.Place + n.Stream.String()
	case n.Prefix != "":
		return n.Engine + ":" + n.Place + "?prefix=" + n.Prefix
	}
	return n.Engine + ":" + n.Place
}

func (o streamOptions) String() string {
	var all []string
	add := func(set bool, option string, value any) {
		if set {
			all = append(all, fmt.Sprintf("%s=%v", option, value))
		}
	}
	add(o.Replicas != 0, "replicas", o.Replicas)
	add(o.sync != "", "sync", o.sync)
	add(o.MaxBytes != 0, "max_bytes", o.MaxBytes)
	add(o.Domain != "", "domain", o.Domain)
	if len(all) == 0 {
		return ""
	}
	return "?" + strings.Join(all, "&")
}
