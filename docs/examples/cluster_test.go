package orders

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

type Cluster struct {
	Control, Token, Bootstrap string
}

func start(t *testing.T) (cluster Cluster) {
	command := exec.Command("kraft-bridge", "cluster", "--brokers", "3", "--controllers", "3")
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { input.Close(); command.Wait() })
	line, err := bufio.NewReader(output).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(line, &cluster); err != nil {
		t.Fatal(err)
	}
	return cluster
}

func (cluster Cluster) do(t *testing.T, path, body string) {
	request, _ := http.NewRequest("POST", cluster.Control+path, strings.NewReader(body))
	request.Header.Set("Authorization", "Bearer "+cluster.Token)
	answer, err := http.DefaultClient.Do(request)
	if err != nil || answer.StatusCode != 200 {
		t.Fatal(path, answer, err)
	}
	answer.Body.Close()
}

func TestABrokerThatIsStopped(t *testing.T) {
	cluster := start(t)
	cluster.do(t, "/stop", `{"node": 2}`)
	for id, address := range strings.Split(cluster.Bootstrap, ",") {
		connection, err := net.Dial("tcp", address)
		if open := err == nil; open != (id != 2) {
			t.Error(fmt.Sprint("broker ", id), err)
		} else if open {
			connection.Close()
		}
	}
	cluster.do(t, "/start", `{"node": 2}`)
}
