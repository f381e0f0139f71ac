"""The federation in Flower's simulation: Message API, FedAvg, two Ray actors of one core each.

    .venv-flower/bin/python -m benchmarks.peers.federation.flower_app

As its documentation advises: as many actors as cores, no client-side evaluation, data kept by the
actors between messages, no dashboard and no telemetry. `run_simulation` is what `flwr run` ends in,
without its local SuperLink and its packaging of the app, which would only add to the start-up.
"""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from benchmarks.peers.federation import task

CORES = 2
client_app, server_app = ClientApp(), ServerApp()


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """Take one platform's step."""
    import torch

    torch.set_num_threads(1)
    platform = int(context.node_config["partition-id"])
    round_ = int(message.content["config"]["server-round"]) - 1
    weights = message.content["arrays"].to_torch_state_dict()
    content = RecordDict(
        {
            "arrays": ArrayRecord(task.train(platform, round_, weights)),
            "metrics": MetricRecord({"num-examples": task.SENTENCES}),
        }
    )
    return Message(content=content, reply_to=message)


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    """Average for all rounds."""
    del context
    watch = task.Stopwatch()

    def after_round(round_: int, arrays: ArrayRecord) -> None:
        del arrays
        if round_:
            watch.lap()

    strategy = FedAvg(
        fraction_train=1.0,
        fraction_evaluate=0.0,
        min_train_nodes=task.NUM_PLATFORMS,
        min_available_nodes=task.NUM_PLATFORMS,
    )
    result = strategy.start(
        grid,
        ArrayRecord(task.weights_of(task.new_tagger())),
        num_rounds=task.ROUNDS,
        evaluate_fn=after_round,
    )
    watch.write(result.arrays.to_torch_state_dict())


def simulate() -> None:
    """Run the federation."""
    run_simulation(
        server_app,
        client_app,
        num_supernodes=task.NUM_PLATFORMS,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": CORES, "include_dashboard": False},
        },
    )


if __name__ == "__main__":
    task.one_thread(simulate)
