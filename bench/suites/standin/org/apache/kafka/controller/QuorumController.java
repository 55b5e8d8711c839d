package org.apache.kafka.controller;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;
import kraftbridge.ControllerProcess;
import kraftbridge.Observer;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.message.AllocateProducerIdsRequestData;
import org.apache.kafka.common.message.AllocateProducerIdsResponseData;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.AlterPartitionReassignmentsResponseData;
import org.apache.kafka.common.message.AlterPartitionRequestData;
import org.apache.kafka.common.message.AlterPartitionResponseData;
import org.apache.kafka.common.message.AlterUserScramCredentialsRequestData;
import org.apache.kafka.common.message.AlterUserScramCredentialsResponseData;
import org.apache.kafka.common.message.AssignReplicasToDirsRequestData;
import org.apache.kafka.common.message.AssignReplicasToDirsResponseData;
import org.apache.kafka.common.message.BrokerHeartbeatRequestData;
import org.apache.kafka.common.message.BrokerRegistrationRequestData;
import org.apache.kafka.common.message.ControllerRegistrationRequestData;
import org.apache.kafka.common.message.CreateAclsRequestData;
import org.apache.kafka.common.message.CreateAclsResponseData;
import org.apache.kafka.common.message.CreateDelegationTokenRequestData;
import org.apache.kafka.common.message.CreateDelegationTokenResponseData;
import org.apache.kafka.common.message.CreatePartitionsRequestData.CreatePartitionsTopic;
import org.apache.kafka.common.message.CreatePartitionsResponseData.CreatePartitionsTopicResult;
import org.apache.kafka.common.message.CreateTopicsRequestData;
import org.apache.kafka.common.message.CreateTopicsResponseData;
import org.apache.kafka.common.message.DeleteAclsRequestData;
import org.apache.kafka.common.message.DeleteAclsResponseData.DeleteAclsFilterResult;
import org.apache.kafka.common.message.ElectLeadersRequestData;
import org.apache.kafka.common.message.ElectLeadersResponseData;
import org.apache.kafka.common.message.ExpireDelegationTokenRequestData;
import org.apache.kafka.common.message.ExpireDelegationTokenResponseData;
import org.apache.kafka.common.message.IncrementalAlterConfigsRequestData;
import org.apache.kafka.common.message.ListPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.ListPartitionReassignmentsResponseData;
import org.apache.kafka.common.message.RenewDelegationTokenRequestData;
import org.apache.kafka.common.message.RenewDelegationTokenResponseData;
import org.apache.kafka.common.message.UpdateFeaturesRequestData;
import org.apache.kafka.common.message.UpdateFeaturesResponseData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.common.requests.BrokerRegistrationRequest;
import org.apache.kafka.common.requests.BrokerRegistrationResponse;
import org.apache.kafka.common.requests.CreateAclsRequest;
import org.apache.kafka.common.requests.CreateAclsResponse;
import org.apache.kafka.common.requests.DeleteAclsRequest;
import org.apache.kafka.common.requests.DeleteAclsResponse;
import org.apache.kafka.common.requests.IncrementalAlterConfigsRequest;
import org.apache.kafka.common.requests.IncrementalAlterConfigsResponse;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.TopicImage;
import org.apache.kafka.image.loader.LoaderManifest;
import org.apache.kafka.image.publisher.MetadataPublisher;
import org.apache.kafka.metadata.BrokerHeartbeatReply;
import org.apache.kafka.metadata.BrokerRegistrationReply;
import org.apache.kafka.metadata.FinalizedControllerFeatures;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;

/**
 * What tests ask of the controller object: read from the observer's image, or sent to the process as a
 * request. It has the name of Kafka's class, as some tests cast to it. What none asks is not answered.
 */
public final class QuorumController implements Controller, MetadataPublisher {
    private final int nodeId;
    private final ControllerProcess process;
    private final Observer observer;
    private final Map<CompletableFuture<Void>, Integer> awaited = new HashMap<>();
    private volatile MetadataImage image = MetadataImage.EMPTY;

    public QuorumController(int nodeId, ControllerProcess process, Observer observer) {
        this.nodeId = nodeId;
        this.process = process;
        this.observer = observer;
    }

    public int nodeId() {
        return nodeId;
    }

    @Override
    public String name() {
        return "stand-in " + nodeId;
    }

    @Override
    public synchronized void onMetadataUpdate(MetadataDelta delta, MetadataImage newImage, LoaderManifest manifest) {
        image = newImage;
        long ready = ready();
        awaited.entrySet().removeIf(one -> one.getValue() <= ready && one.getKey().complete(null));
    }

    private long ready() {
        return image.cluster().brokers().values().stream().filter(one -> !one.fenced()).count();
    }

    private MetadataImage newest() {
        observer.catchUp();
        return image;
    }

    @Override
    public synchronized CompletableFuture<Void> waitForReadyBrokers(int minBrokers) {
        CompletableFuture<Void> future = new CompletableFuture<>();
        if (ready() >= minBrokers) {
            future.complete(null);
        } else {
            awaited.put(future, minBrokers);
        }
        return future;
    }

    @Override
    public int curClaimEpoch() {
        boolean leads = process.status().at("/quorum/state").asText().equals("leader");
        return leads ? process.status().at("/leader_epoch").asInt() : -1;
    }

    @Override
    public CompletableFuture<Map<String, ResultOrError<Uuid>>> findTopicIds(
        ControllerRequestContext context, Collection<String> topicNames
    ) {
        Map<String, ResultOrError<Uuid>> found = new HashMap<>();
        MetadataImage now = newest();
        for (String name : topicNames) {
            TopicImage topic = now.topics().getTopic(name);
            found.put(name, topic == null
                ? new ResultOrError<>(new ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION))
                : new ResultOrError<>(topic.id()));
        }
        return CompletableFuture.completedFuture(found);
    }

    @Override
    public CompletableFuture<Map<String, Uuid>> findAllTopicIds(ControllerRequestContext context) {
        return CompletableFuture.completedFuture(new HashMap<>(newest().topics().topicNameToIdView()));
    }

    @Override
    public CompletableFuture<Map<Uuid, ResultOrError<String>>> findTopicNames(
        ControllerRequestContext context, Collection<Uuid> topicIds
    ) {
        Map<Uuid, ResultOrError<String>> found = new HashMap<>();
        MetadataImage now = newest();
        for (Uuid id : topicIds) {
            TopicImage topic = now.topics().getTopic(id);
            found.put(id, topic == null
                ? new ResultOrError<>(new ApiError(Errors.UNKNOWN_TOPIC_ID))
                : new ResultOrError<>(topic.name()));
        }
        return CompletableFuture.completedFuture(found);
    }

    @Override
    public CompletableFuture<Map<ConfigResource, ApiError>> incrementalAlterConfigs(
        ControllerRequestContext context,
        Map<ConfigResource, Map<String, Map.Entry<AlterConfigOp.OpType, String>>> changes,
        boolean validateOnly
    ) {
        IncrementalAlterConfigsRequestData request = new IncrementalAlterConfigsRequestData().setValidateOnly(validateOnly);
        changes.forEach((resource, values) -> {
            var one = new IncrementalAlterConfigsRequestData.AlterConfigsResource()
                .setResourceType(resource.type().id()).setResourceName(resource.name());
            values.forEach((key, value) -> one.configs().add(new IncrementalAlterConfigsRequestData.AlterableConfig()
                .setName(key).setConfigOperation(value.getKey().id()).setValue(value.getValue())));
            request.resources().add(one);
        });
        return observer.send(new IncrementalAlterConfigsRequest.Builder(request), body ->
            IncrementalAlterConfigsResponse.fromResponseData(((IncrementalAlterConfigsResponse) body).data()));
    }

    @Override
    public CompletableFuture<BrokerRegistrationReply> registerBroker(
        ControllerRequestContext context, BrokerRegistrationRequestData request
    ) {
        return observer.send(new BrokerRegistrationRequest.Builder(request), body -> {
            var data = ((BrokerRegistrationResponse) body).data();
            Errors.forCode(data.errorCode()).maybeThrow();
            return new BrokerRegistrationReply(data.brokerEpoch());
        });
    }

    @Override
    public CompletableFuture<List<AclCreateResult>> createAcls(ControllerRequestContext context, List<AclBinding> bindings) {
        CreateAclsRequestData request = new CreateAclsRequestData();
        bindings.forEach(one -> request.creations().add(CreateAclsRequest.aclCreation(one)));
        return observer.send(new CreateAclsRequest.Builder(request), body ->
            ((CreateAclsResponse) body).data().results().stream()
                .map(one -> failure(one.errorCode(), one.errorMessage())
                    .map(AclCreateResult::new).orElse(AclCreateResult.SUCCESS))
                .collect(Collectors.toList()));
    }

    @Override
    public CompletableFuture<List<AclDeleteResult>> deleteAcls(ControllerRequestContext context, List<AclBindingFilter> filters) {
        DeleteAclsRequestData request = new DeleteAclsRequestData();
        filters.forEach(one -> request.filters().add(DeleteAclsRequest.deleteAclsFilter(one)));
        return observer.send(new DeleteAclsRequest.Builder(request), body ->
            ((DeleteAclsResponse) body).filterResults().stream()
                .map(QuorumController::deleted)
                .collect(Collectors.toList()));
    }

    private static AclDeleteResult deleted(DeleteAclsFilterResult one) {
        Optional<ApiException> whole = failure(one.errorCode(), one.errorMessage());
        if (whole.isPresent()) {
            return new AclDeleteResult(whole.get());
        }
        List<AclDeleteResult.AclBindingDeleteResult> results = new ArrayList<>();
        one.matchingAcls().forEach(acl -> {
            AclBinding binding = DeleteAclsResponse.aclBinding(acl);
            results.add(failure(acl.errorCode(), acl.errorMessage())
                .map(error -> new AclDeleteResult.AclBindingDeleteResult(binding, error))
                .orElseGet(() -> new AclDeleteResult.AclBindingDeleteResult(binding)));
        });
        return new AclDeleteResult(results);
    }

    private static Optional<ApiException> failure(short code, String text) {
        return Optional.ofNullable(Errors.forCode(code).exception(text));
    }

    @Override
    public void beginShutdown() {
    }

    @Override
    public void close() {
    }

    @Override
    public CompletableFuture<AlterPartitionResponseData> alterPartition(ControllerRequestContext context, AlterPartitionRequestData request) {
        throw notAsked("alterPartition");
    }

    @Override
    public CompletableFuture<AlterUserScramCredentialsResponseData> alterUserScramCredentials(ControllerRequestContext context, AlterUserScramCredentialsRequestData request) {
        throw notAsked("alterUserScramCredentials");
    }

    @Override
    public CompletableFuture<CreateDelegationTokenResponseData> createDelegationToken(ControllerRequestContext context, CreateDelegationTokenRequestData request) {
        throw notAsked("createDelegationToken");
    }

    @Override
    public CompletableFuture<RenewDelegationTokenResponseData> renewDelegationToken(ControllerRequestContext context, RenewDelegationTokenRequestData request) {
        throw notAsked("renewDelegationToken");
    }

    @Override
    public CompletableFuture<ExpireDelegationTokenResponseData> expireDelegationToken(ControllerRequestContext context, ExpireDelegationTokenRequestData request) {
        throw notAsked("expireDelegationToken");
    }

    @Override
    public CompletableFuture<CreateTopicsResponseData> createTopics(ControllerRequestContext context, CreateTopicsRequestData request, Set<String> describable) {
        throw notAsked("createTopics");
    }

    @Override
    public CompletableFuture<Void> unregisterBroker(ControllerRequestContext context, int brokerId) {
        throw notAsked("unregisterBroker");
    }

    @Override
    public CompletableFuture<Map<Uuid, ApiError>> deleteTopics(ControllerRequestContext context, Collection<Uuid> ids) {
        throw notAsked("deleteTopics");
    }

    @Override
    public CompletableFuture<Map<ConfigResource, ResultOrError<Map<String, String>>>> describeConfigs(ControllerRequestContext context, Map<ConfigResource, Collection<String>> resources) {
        throw notAsked("describeConfigs");
    }

    @Override
    public CompletableFuture<ElectLeadersResponseData> electLeaders(ControllerRequestContext context, ElectLeadersRequestData request) {
        throw notAsked("electLeaders");
    }

    @Override
    public CompletableFuture<FinalizedControllerFeatures> finalizedFeatures(ControllerRequestContext context) {
        throw notAsked("finalizedFeatures");
    }

    @Override
    public CompletableFuture<AlterPartitionReassignmentsResponseData> alterPartitionReassignments(ControllerRequestContext context, AlterPartitionReassignmentsRequestData request) {
        throw notAsked("alterPartitionReassignments");
    }

    @Override
    public CompletableFuture<ListPartitionReassignmentsResponseData> listPartitionReassignments(ControllerRequestContext context, ListPartitionReassignmentsRequestData request) {
        throw notAsked("listPartitionReassignments");
    }

    @Override
    public CompletableFuture<Map<ConfigResource, ApiError>> legacyAlterConfigs(ControllerRequestContext context, Map<ConfigResource, Map<String, String>> configs, boolean validateOnly) {
        throw notAsked("legacyAlterConfigs");
    }

    @Override
    public CompletableFuture<BrokerHeartbeatReply> processBrokerHeartbeat(ControllerRequestContext context, BrokerHeartbeatRequestData request) {
        throw notAsked("processBrokerHeartbeat");
    }

    @Override
    public CompletableFuture<Map<ClientQuotaEntity, ApiError>> alterClientQuotas(ControllerRequestContext context, Collection<ClientQuotaAlteration> changes, boolean validateOnly) {
        throw notAsked("alterClientQuotas");
    }

    @Override
    public CompletableFuture<AllocateProducerIdsResponseData> allocateProducerIds(ControllerRequestContext context, AllocateProducerIdsRequestData request) {
        throw notAsked("allocateProducerIds");
    }

    @Override
    public CompletableFuture<UpdateFeaturesResponseData> updateFeatures(ControllerRequestContext context, UpdateFeaturesRequestData request) {
        throw notAsked("updateFeatures");
    }

    @Override
    public CompletableFuture<List<CreatePartitionsTopicResult>> createPartitions(ControllerRequestContext context, List<CreatePartitionsTopic> topics, boolean validateOnly) {
        throw notAsked("createPartitions");
    }

    @Override
    public CompletableFuture<Void> registerController(ControllerRequestContext context, ControllerRegistrationRequestData request) {
        throw notAsked("registerController");
    }

    @Override
    public CompletableFuture<AssignReplicasToDirsResponseData> assignReplicasToDirs(ControllerRequestContext context, AssignReplicasToDirsRequestData request) {
        throw notAsked("assignReplicasToDirs");
    }

    private static UnsupportedOperationException notAsked(String what) {
        return new UnsupportedOperationException("the controller is another process, and the stand-in sends no " + what);
    }
}
