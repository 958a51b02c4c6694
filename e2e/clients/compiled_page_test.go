package clients_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// The examples of the page about clients in languages that make test-clients compiles.

const javaPage = `import io.nats.client.*;
import io.nats.client.api.*;
import io.nats.client.impl.*;
import java.time.Duration;

public class Page {
  public static void main(String[] args) throws Exception {
    Duration timeout = Duration.ofMillis(%d);
    try (Connection nc = Nats.connect(args[0])) {
%s
    }
    System.out.println("%s");
  }
}
`

func TestClientsPageInJava(t *testing.T) {
	t.Parallel()
	needDriver(t, "java", "Driver.class")
	dir, packages := t.TempDir(), absolute(t, "../testdata/java/target/dependency/*")
	runCompiledPage(t, "java", javaPage, filepath.Join(dir, "Page.java"), `.*System\.out\.println\(.*\);`,
		pqd.Compiler(t, "javac", "-d", dir, "-cp", packages, filepath.Join(dir, "Page.java")),
		"java", "-cp", dir+string(filepath.ListSeparator)+packages, "Page")
}

const rustPage = `use async_nats::{jetstream, HeaderMap};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let timeout = std::time::Duration::from_millis(%d);
    let server = std::env::args().nth(1).ok_or("expected an address")?;
    let client = async_nats::ConnectOptions::new().request_timeout(Some(timeout)).connect(server).await?;
%s
    println!("%s");
    Ok(())
}
`

func TestClientsPageInRust(t *testing.T) {
	t.Parallel()
	needDriver(t, "rust", "debug/driver")
	project := absolute(t, "../testdata/rust")
	build := pqd.Compiler(t, "cargo", "build", "--locked", "--quiet", "--bin", "page", "--features", "page")
	build.Dir = project
	runCompiledPage(t, "rust", rustPage, filepath.Join(project, "target/page.rs"), `\s*println!\(.*\);`, build, filepath.Join(project, "target/debug/page"))
}

const cPage = `#include <nats/nats.h>
#include <stdio.h>

int main(int argc, char **argv) {
    const int64_t timeout = %d;
    natsConnection *nc = NULL;
    jsCtx *js = NULL;
    if (argc != 2 || natsConnection_ConnectTo(&nc, argv[1]) != NATS_OK || natsConnection_JetStream(&js, nc, NULL) != NATS_OK)
        return 1;
%s
    puts("%s");
    jsCtx_Destroy(js);
    natsConnection_Destroy(nc);
    nats_Close();
}
`

func TestClientsPageInC(t *testing.T) {
	t.Parallel()
	needDriver(t, "c", "driver")
	source, program := filepath.Join(t.TempDir(), "page.c"), filepath.Join(t.TempDir(), "page")
	runCompiledPage(t, "c", cPage, source, `\s*printf\(.*\);`, pqd.Compiler(t, "cc", "-Wall", "-Wextra", "-Werror", "-o", program, source, "-lnats"), program)
}

// runCompiledPage runs the examples of a language as one program.
func runCompiledPage(t *testing.T, language, frame, source, printing string, build *exec.Cmd, run ...string) {
	t.Helper()
	blocks := testenv.Blocks(t, clientsPage, language)
	if len(blocks) != 1 {
		t.Fatalf("%d examples in %s, expected one", len(blocks), language)
	}
	pqd.Write(t, source, fmt.Sprintf(frame, testenv.Patience().Milliseconds(), blocks[0].Text, separator))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p := testenv.Daemon(t)
	judgeExamples(t, blocks, pqd.Run(t, run[0], append(run[1:], p.URL)...), printing)
	p.Stop(t)
}
