package settings

import (
	"slices"

	"github.com/pqbridge/pqbridge/subjects"
)

// Settings are pqd's settings, from its environment. The tags are the one table of names, defaults and meanings:
// reading, checking and --help all use it.
type Settings struct {
	Store       StoreName       `envconfig:"PQ_STORE" default:"local:./pq-data" desc:"where the queues are kept: local:<directory>, jetstream:<name>?sync=always, or fdb:<cluster file>[?prefix=<name>]"`
	Cluster     nodes           `envconfig:"PQ_CLUSTER" desc:"addresses of all nodes of a replicated store, an odd number, separated by commas. <name>=<address> gives a node a name that stays when its address changes"`
	Node        nodeName        `envconfig:"PQ_NODE" desc:"the name of this node: with PQ_CLUSTER one of its names or addresses, otherwise any. Needed unless it is the address or the name of this machine"`
	Data        directory       `envconfig:"PQ_DATA" default:"./pq-cluster" desc:"directory of a node: its copy of the store, and the files of its NATS server"`
	MinFree     MinFree         `envconfig:"PQ_MIN_FREE" desc:"how much of the disk of the embedded store, or of PQ_DATA, stays free of new items (429), such as 10G; 0 refuses none. If not set: 5 % of the disk, from 256M to 1G, and no more than a quarter of it. A spare file of a quarter of this, 64M at most, takes room besides"`
	QueueBytes  byteCount       `envconfig:"PQ_MAX_QUEUE_BYTES" desc:"how many bytes the items of any queue may have, such as 10G, and how many its results, whatever its max_bytes and result_bytes; 0, the default: no limit"`
	Secret      ExistingFile    `envconfig:"PQ_CLUSTER_SECRET" desc:"file with a line that all nodes of PQ_CLUSTER share; at least 16 characters"`
	Silence     silence         `envconfig:"PQ_CLUSTER_SILENCE" default:"500ms" desc:"how long two nodes must not have heard another one to replace it, from 300ms to 5s; the same on all nodes. More on networks and machines that stall"`
	RouteCA     ExistingFile    `envconfig:"PQ_CLUSTER_CA" desc:"file with the certificate authorities for the connections between nodes of PQ_CLUSTER; needed beyond loopback addresses"`
	RouteCert   ExistingFile    `envconfig:"PQ_CLUSTER_CERT" desc:"certificate file of this node, with PQ_CLUSTER_KEY"`
	RouteKey    ExistingFile    `envconfig:"PQ_CLUSTER_KEY" desc:"private key file of PQ_CLUSTER_CERT"`
	LogCreds    ExistingFile    `envconfig:"PQ_STORE_CREDS" desc:"credentials file of the NATS account that has the stream of PQ_STORE=jetstream:<name>, if it is not the clients'"`
	Prefix      prefix          `envconfig:"PQ_PREFIX" default:"pq" desc:"the first tokens of all subjects, joined by dots"`
	Site        siteName        `envconfig:"PQ_SITE" desc:"the name of this site, for clients at others: behind a leaf node pqd serves them under <name>.<PQ_PREFIX>"`
	Listen      Address         `envconfig:"PQ_LISTEN" default:"127.0.0.1:4222" desc:"address of the embedded NATS server, which runs when NATS_URL is not set"`
	NATSConfig  ExistingFile    `envconfig:"PQ_NATS_CONFIG" desc:"a nats-server configuration file for the embedded server"`
	Unprotected doors           `envconfig:"PQ_UNPROTECTED" desc:"what may be open to everybody who reaches it, separated by commas: nats, the embedded NATS server beyond loopback addresses without a login; http, the console and the HTTP interface there without a token; log, the log of PQ_STORE=jetstream:<name> without a login. Otherwise pqd refuses to start"`
	HTTP        Address         `envconfig:"PQ_HTTP" default:"127.0.0.1:8622" desc:"address of the HTTP server: the console, /v1/, /healthz, /readyz and /metrics"`
	HTTPHosts   HostNames       `envconfig:"PQ_HTTP_HOSTS" desc:"more host names under which PQ_HTTP answers, separated by commas; * allows all. Addresses and the machine's own name always work, beyond loopback also names without a dot"`
	WebCert     ExistingFile    `envconfig:"PQ_HTTP_CERT" desc:"certificate file of PQ_HTTP, with those that lead to its authority: pqd serves HTTPS there. Read again when it changes"`
	WebKey      ExistingFile    `envconfig:"PQ_HTTP_KEY" desc:"private key file of PQ_HTTP_CERT"`
	Console     consoleMode     `envconfig:"PQ_CONSOLE" desc:"the console and the HTTP interface: off, read to look, or admin to change, too. If not set: admin for programs of its user on the machine, which may do everything over NATS anyway, where PQ_LISTEN and PQ_HTTP are loopback addresses and no login, NATS_URL, PQ_NATS_CONFIG, PQ_CLUSTER, PQ_TENANTS, PQ_CONSOLE_TOKEN or PQ_HTTP_HOSTS is set; otherwise read where PQ_CONSOLE_TOKEN is set, NATS_PASSWORD guards the embedded server, or PQ_HTTP is a loopback address and neither NATS_URL nor PQ_NATS_CONFIG is set; otherwise off"`
	Token       ExistingFile    `envconfig:"PQ_CONSOLE_TOKEN" desc:"file with the token of the console and of the HTTP interface, a line of at least 16 characters; needed beyond loopback addresses. If not set: the password of the NATS user whose rights they have, there and where NATS_PASSWORD guards the embedded server"`
	WebCreds    ExistingFile    `envconfig:"PQ_CONSOLE_CREDS" desc:"credentials file of the NATS user whose rights the console and the HTTP interface have, if it is not pqd's"`
	WebUser     string          `envconfig:"PQ_CONSOLE_USER" desc:"the same by name, with PQ_CONSOLE_PASSWORD"`
	WebPass     string          `envconfig:"PQ_CONSOLE_PASSWORD" desc:"password of PQ_CONSOLE_USER"`
	WebInbox    inboxPrefix     `envconfig:"PQ_CONSOLE_INBOX" default:"_INBOX" desc:"prefix of that user's inboxes"`
	Replies     replySubjects   `envconfig:"PQ_REPLY_SUBJECTS" desc:"more patterns of reply subjects that pqd answers, separated by commas, none of them those of requests; always _INBOX.> and _R_.>"`
	Remotes     ExistingFile    `envconfig:"PQ_REMOTES" desc:"file that says where sources find streams and links, and which queue may read which. Read again at SIGHUP"`
	Tenants     ExistingFile    `envconfig:"PQ_TENANTS" desc:"file with the quotas of tenants and the files with their tokens for HTTP, {} for none but the usual quotas; the second token of subjects is then the tenant. Read again at SIGHUP"`
	Sync        bool            `envconfig:"PQ_SYNC" default:"true" desc:"false answers before the fsync: faster, and a power loss can take acknowledged items"`
	AutoCreate  bool            `envconfig:"PQ_AUTO_CREATE" default:"true" desc:"a push makes its queue; false answers 403 for a queue that does not exist, and no queue deletes itself (expire_empty)"`
	Log         logFormat       `envconfig:"PQ_LOG" default:"text" desc:"log format: text or json"`
	LogLevel    logLevel        `envconfig:"PQ_LOG_LEVEL" default:"info" desc:"log level: debug, info, warn or error"`
	Queues      queueCount      `envconfig:"PQ_METRICS_QUEUES" default:"1000" desc:"how many queues have metrics of their own, up to 10000; the others are counted together"`
	Profile     bool            `envconfig:"PQ_PROFILE" default:"false" desc:"true also serves /debug/pprof at PQ_HTTP, with profiles of blocking"`
	NATS        NATS            `ignored:"true"`
	set         map[string]bool // the variables that were set
}

// NATS are the variables that the nats command knows too.
type NATS struct {
	URL      string       `envconfig:"NATS_URL" desc:"NATS servers to connect to, separated by commas, instead of running one"`
	Creds    ExistingFile `envconfig:"NATS_CREDS" desc:"credentials file to log in with"`
	NKey     ExistingFile `envconfig:"NATS_NKEY" desc:"file with the NKey seed to log in with"`
	User     string       `envconfig:"NATS_USER" desc:"user to log in as, with NATS_PASSWORD. Without NATS_URL and PQ_NATS_CONFIG: the login that the embedded NATS server asks for"`
	Password string       `envconfig:"NATS_PASSWORD" desc:"password of NATS_USER"`
	Token    string       `envconfig:"NATS_TOKEN" desc:"token to log in with"`
	CA       ExistingFile `envconfig:"NATS_CA" desc:"file with the certificate authorities to trust"`
	Cert     ExistingFile `envconfig:"NATS_CERT" desc:"client certificate file, with NATS_KEY"`
	Key      ExistingFile `envconfig:"NATS_KEY" desc:"private key file of NATS_CERT"`
}

// Grammar is the grammar of the subjects that pqd serves.
func (s *Settings) Grammar() (subjects.Grammar, error) {
	g, err := subjects.New(string(s.Prefix))
	if s.Tenants != "" {
		g = g.WithTenants()
	}
	if err == nil && s.Site != "" {
		g, err = g.AtSite(string(s.Site))
	}
	return g, err
}

// IsSet reports whether a variable was set.
func (s *Settings) IsSet(name string) bool { return s.set[name] }

// among returns the given names that are set.
func (s *Settings) among(names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return !s.set[name] })
}

// OwnLogin reports whether NATS_USER and NATS_PASSWORD are the login that the embedded
// server asks all clients for.
func (s *Settings) OwnLogin() bool {
	return s.NATS.URL == "" && s.NATSConfig == "" && s.NATS.User != ""
}
