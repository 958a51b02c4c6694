package settings

import "testing"

// What a file does not say is as usual; what a tenant does not say is as the default.
func TestTenants(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]Quotas{
		"{}": {usualQuotas, usualQuotas},
		`{"default":{"items":5,"queues":0},"tenants":{"a":{"items":7}}}`: {{Items: 5, Waiting: 1000}, {Items: 7, Waiting: 1000}},
		`{"tenants":{"a":{"requests":3}}}`:                               {usualQuotas, {Queues: 1000, Waiting: 1000, Requests: 3}},
	} {
		read, err := parseTenants([]byte(text))
		if err != nil || read.Of("b") != want[0] || read.Of("a") != want[1] {
			t.Errorf("%s: %+v, %v", text, read, err)
		}
	}
	for _, text := range []string{"", "[]", "{} {}", `{"defaults":{}}`, `{"default":{"item":1}}`, `{"default":{"items":-1}}`, `{"default":{"items":1.5}}`, `{"tenants":{"a.b":{}}}`, `{"tenants":{"_a":{}}}`, `{"tenants":{"a":1}}`} {
		if read, err := parseTenants([]byte(text)); err == nil {
			t.Errorf("%s: %+v", text, read)
		}
	}
}
