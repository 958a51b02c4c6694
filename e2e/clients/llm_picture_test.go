package clients_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

var flagTenants = flag.String("pq.tenants", "", "file for a picture of the tenants' tokens in TestLanguageModelBesideKills; empty: none is made")

// drawTenants draws the tokens of each tenant over the time, and when something was killed.
func drawTenants(t *testing.T, path string, tenants []llmTenant, journal []provided, kills []time.Time) {
	t.Helper()
	const left, top, width, height = 70, 46, 560, 230
	colours := []string{"#e5c07b", "#abb2bf", "#61afef"}
	began, took := journal[0].At, journal[len(journal)-1].At.Sub(journal[0].At)
	sums := make(map[string]int64)
	for _, one := range journal {
		sums[one.Tenant] += one.Tokens
	}
	var most int64
	for _, sum := range sums {
		most = max(most, sum)
	}
	x := func(at time.Time) float64 { return left + width*at.Sub(began).Seconds()/took.Seconds() }
	y := func(sum int64) float64 { return top + height - height*float64(sum)/float64(most) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="820" height="330" viewBox="0 0 820 330" role="img">
<title>Tokens that three tenants got in %d seconds: gold, of weight 3, gets three times those of silver, and so it does of bulk, whose requests are five times as long</title>
<rect width="820" height="330" rx="8" fill="#1e2127"/>
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13" fill="#abb2bf">
<text x="%d" y="28">tokens, in thousands</text>
`, int(took.Seconds()+.5), left)
	for i := range 4 {
		sum := most * int64(i) / 3
		fmt.Fprintf(&b, `<path d="M%d %.1fh%d" stroke="#3e4451"/><text x="%d" y="%.1f" text-anchor="end">%d</text>`+"\n", left, y(sum), width, left-10, y(sum)+4, sum/1000)
	}
	for seconds := 0; seconds <= int(took.Seconds()); seconds += 10 {
		at := x(began.Add(time.Duration(seconds) * time.Second))
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%d s</text>`+"\n", at, top+height+22, seconds)
	}
	for _, kill := range kills {
		fmt.Fprintf(&b, `<path d="M%.1f %dv%d" stroke="#e06c75" stroke-dasharray="2 4"/>`+"\n", x(kill), top, height)
	}
	for i, tenant := range tenants {
		var sum int64
		line := fmt.Sprintf("M%d %.1f", left, y(0))
		for _, one := range journal {
			if one.Tenant == tenant.name && !one.Refused {
				sum += one.Tokens
				line += fmt.Sprintf("L%.1f %.1f", x(one.At), y(sum))
			}
		}
		fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", line, colours[i])
		label := y(sum) + 4 + float64(i%3)*8 - 8 // two of them end at the same place
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" fill="%s">%s, weight %d</text>`+"\n", left+width+8, label, colours[i], tenant.name, tenant.weight)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#e06c75">red: pqd or a worker killed</text>`+"\n</g>\n</svg>\n", left, top+height+42)
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
